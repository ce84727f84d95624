// What a modelled program computes: 32-bit words, a function of the program's name, that mixes each element of the
// arguments with a sum over all of them, as a step with an all-reduce does.
//
// Place:  controller/sim; pure. Defined on whole arrays; a rank's part is the slice of the whole that it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace switchtower {

using SimWords = std::vector<uint32_t>;

inline uint32_t SimNumberOf(const std::string& name) {
  uint32_t hash = 0x811c9dc5;
  for (unsigned char c : name) hash = (hash ^ c) * 0x01000193;
  return hash;
}

// `arguments` are whole arrays of `elements` words each.
inline SimWords SimResult(const std::string& program, const std::vector<SimWords>& arguments, size_t result,
                          size_t elements) {
  const uint32_t seed = SimNumberOf(program) + static_cast<uint32_t>(result) * 0x9e3779b9;
  uint32_t sum = seed;
  for (size_t a = 0; a < arguments.size(); ++a) {
    for (uint32_t word : arguments[a]) sum += word * static_cast<uint32_t>(2 * a + 1);
  }
  SimWords words(elements, sum);
  for (size_t i = 0; i < elements; ++i) {
    for (size_t a = 0; a < arguments.size(); ++a) words[i] = words[i] * 31 + arguments[a][i];
  }
  return words;
}

}  // namespace switchtower
