#include "compiler/program_file.h"

#include <xxhash.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compiler/frame_io.h"
#include "compiler/program_cache.h"
#include "compiler/program_proto.h"

namespace switchtower {
namespace {

constexpr char kMagic[8] = {'S', 'W', 'T', 'P', 'R', 'O', 'G', '\n'};
// Machine code shrinks to a third at this level, at the disk's speed.
constexpr int kCompressionLevel = 1;

// As it lies in the file. The cache is read on the machine (type) that wrote it, so the byte order is its own.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t plain_bytes;
  uint64_t packed_bytes;
  uint64_t checksum;  // XXH3 of the packed bytes, seeded with plain_bytes
};
static_assert(sizeof(Header) == 40);

}  // namespace

absl::StatusOr<std::string> EncodeProgramFile(const CompiledProgram& program) {
  std::string plain;
  if (!ToProto(program).SerializeToString(&plain)) return absl::ResourceExhaustedError("the program is too large");
  std::string file(sizeof(Header) + ZSTD_compressBound(plain.size()), '\0');
  const size_t packed = ZSTD_compress(file.data() + sizeof(Header), file.size() - sizeof(Header), plain.data(),
                                      plain.size(), kCompressionLevel);
  if (ZSTD_isError(packed) != 0) return absl::FailedPreconditionError(ZSTD_getErrorName(packed));
  file.resize(sizeof(Header) + packed);
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kProgramFormatVersion;
  header.header_bytes = sizeof(Header);
  header.plain_bytes = plain.size();
  header.packed_bytes = packed;
  header.checksum = XXH3_64bits_withSeed(file.data() + sizeof(Header), packed, header.plain_bytes);
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

absl::StatusOr<CompiledProgram> DecodeProgramFile(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return absl::InvalidArgumentError("shorter than its header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.header_bytes != sizeof(header)) {
    return absl::InvalidArgumentError("not a program file");
  }
  if (header.version != kProgramFormatVersion) {
    return absl::InvalidArgumentError(fmt::format("of format {}", header.version));
  }
  const std::string_view packed = bytes.substr(sizeof(header));
  if (header.packed_bytes != packed.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes where the header says {}", packed.size(), header.packed_bytes));
  }
  if (header.plain_bytes > kMaxFrameBytes) return absl::InvalidArgumentError("too large");
  if (XXH3_64bits_withSeed(packed.data(), packed.size(), header.plain_bytes) != header.checksum) {
    return absl::InvalidArgumentError("the checksum doesn't fit");
  }
  std::string plain(header.plain_bytes, '\0');
  const size_t size = ZSTD_decompress(plain.data(), plain.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0 || size != plain.size()) return absl::InvalidArgumentError("can't be decompressed");
  compiler::CompiledProgram proto;
  if (!proto.ParseFromString(plain)) return absl::InvalidArgumentError("can't be parsed");
  return FromProto(std::move(proto));
}

}  // namespace switchtower
