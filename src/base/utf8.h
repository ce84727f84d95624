// Text for a proto3 string: programs, plug-ins and workers may name things as they like, and whoever gets a string that
// isn't UTF-8 can't parse the message around it.
#pragma once

#include <string>
#include <string_view>

namespace switchtower {

// Bytes that aren't UTF-8 become `?`.
inline std::string ToUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : lead >= 0xe0 && lead < 0xf0 ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    bool good = length > 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    if (good && length > 2) {
      const auto next = static_cast<unsigned char>(text[i + 1]);
      // Overlong forms, surrogates and what lies above U+10FFFF.
      good = !((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next >= 0xa0) || (lead == 0xf0 && next < 0x90) ||
               (lead == 0xf4 && next >= 0x90));
    }
    if (good) {
      out.append(text.substr(i, length));
      i += length;
    } else {
      out.push_back('?');
      ++i;
    }
  }
  return out;
}

}  // namespace switchtower
