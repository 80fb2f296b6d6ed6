#include "range_map.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "tenzro/base/bytes.hpp"

#include "file_reader.hpp"

namespace tenzro::store {
namespace {

constexpr std::string_view kMagic = "tzpart1\n";
constexpr std::size_t kRecordBytes = 2 * sizeof(std::uint64_t);
static_assert(kMagic.size() + sizeof(std::uint64_t) == kRecordBytes);
/// Pieces of the largest blob in the smallest pieces we ask for, and as many overwritten.
constexpr std::uint64_t kMapBytesMax = std::uint64_t{4} << 20U;

void append_u64(std::vector<std::byte>& out, std::uint64_t value) {
  for (unsigned i = 0; i < sizeof(value); ++i)
    out.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFFU));
}

}  // namespace

void add_range(Ranges& ranges, std::uint64_t begin, std::uint64_t end) {
  auto next = ranges.upper_bound(begin);
  if (next != ranges.begin()) {
    const auto before = std::prev(next);
    if (before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      next = ranges.erase(before);
    }
  }
  while (next != ranges.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(begin, end);
}

std::vector<std::byte> format_part_range(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> record;
  append_u64(record, begin);
  append_u64(record, end);
  return record;
}

std::vector<std::byte> format_part_map(std::uint64_t size_bytes, const Ranges& ranges) {
  const auto magic = std::as_bytes(std::span(kMagic));
  std::vector<std::byte> bytes(magic.begin(), magic.end());
  append_u64(bytes, size_bytes);
  for (const auto& [begin, end] : ranges) {
    append_u64(bytes, begin);
    append_u64(bytes, end);
  }
  return bytes;
}

Result<PartMap> read_part_map(FileSystem& files, const std::string& path) {
  const Result<FileReader> file = FileReader::open(files, path);
  if (!file) return fail(file.error());
  const auto refuse = [&path](const char* why) { return fail(ErrorCode::io, echo(path), why); };
  if (file->size_bytes() > kMapBytesMax) return refuse("is too long");
  const Result<BufferRef> bytes = file->read(0, file->size_bytes());
  if (!bytes) return fail(bytes.error());
  if (bytes->size() < kRecordBytes || !bytes->text().starts_with(kMagic))
    return refuse("is not the map of a partial blob");
  const std::span<const std::byte> all = bytes->bytes();
  PartMap map{.size_bytes = load_u64_le(&all[kMagic.size()])};
  for (std::size_t at = kRecordBytes; at + kRecordBytes <= all.size(); at += kRecordBytes) {
    const std::uint64_t begin = load_u64_le(&all[at]);
    const std::uint64_t end = load_u64_le(&all[at + sizeof(std::uint64_t)]);
    if (begin >= end || end > map.size_bytes) return refuse("tells of bytes outside its blob");
    add_range(map.ranges, begin, end);
  }
  return map;
}

}  // namespace tenzro::store
