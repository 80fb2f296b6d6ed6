#include "support/tensor_table.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tenzro/base/bytes.hpp"

namespace tenzro::testing {

namespace {

tensor::WeightType dense_type(tensor::DType dtype, const std::string& name) {
  switch (dtype) {
    case tensor::DType::f32:
      return tensor::WeightType::f32;
    case tensor::DType::f16:
      return tensor::WeightType::f16;
    case tensor::DType::bf16:
      return tensor::WeightType::bf16;
    default:
      stop("tensor " + name + " is not F32, F16 or BF16");
  }
}

}  // namespace

void stop(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::abort();
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) stop("cannot read " + path);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto* from = static_cast<const std::byte*>(static_cast<const void*>(all.data()));
  return {from, from + all.size()};
}

TensorTable::TensorTable(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    files_.push_back(read_file(path));
    const Result<tensor::SafetensorsHeader> header = tensor::parse_safetensors(files_.back());
    if (!header) stop(path + ": " + header.error().message());
    for (const auto& [name, info] : header->tensors) {
      const bool is_new = places_.emplace(name, Place{files_.size() - 1, info}).second;
      if (!is_new) stop(path + ": a second tensor " + name);
    }
  }
}

const TensorTable::Place& TensorTable::place(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) stop("no tensor " + name);
  return found->second;
}

std::vector<std::string> TensorTable::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const auto& [name, place] : places_) {
    if (name.starts_with(prefix)) found.push_back(name);
  }
  return found;
}

const tensor::TensorInfo& TensorTable::info(const std::string& name) const {
  return place(name).info;
}

std::span<const std::byte> TensorTable::bytes(const std::string& name) const {
  const Place& at = place(name);
  return std::span(files_[at.file]).subspan(at.info.begin, at.info.bytes());
}

std::vector<float> TensorTable::floats(const std::string& name) const {
  const tensor::TensorInfo& of = info(name);
  std::vector<float> out(of.bytes() / tensor::bytes_of(of.dtype));
  tensor::convert_to_f32(of.dtype, bytes(name), out);
  return out;
}

std::vector<std::int64_t> TensorTable::integers(const std::string& name) const {
  const tensor::DType dtype = info(name).dtype;
  if (dtype != tensor::DType::i32 && dtype != tensor::DType::i64) stop(name + " is not integer");
  const std::size_t size = tensor::bytes_of(dtype);
  const std::span<const std::byte> from = bytes(name);
  std::vector<std::int64_t> out;
  for (std::size_t at = 0; at < from.size(); at += size) {
    const std::byte* one = from.data() + at;
    out.push_back(size == 4 ? std::int64_t{static_cast<std::int32_t>(load_u32_le(one))}
                            : static_cast<std::int64_t>(load_u64_le(one)));
  }
  return out;
}

compute::MatrixView TensorTable::matrix(const std::string& name) const {
  const tensor::TensorInfo& of = info(name);
  if (of.shape.size() != 2) stop("tensor " + name + " is no matrix");
  return {.type = dense_type(of.dtype, name),
          .rows = static_cast<std::uint32_t>(of.shape[0]),
          .cols = static_cast<std::uint32_t>(of.shape[1]),
          .bytes = bytes(name)};
}

compute::MatrixView TensorTable::slab_rows(const std::string& name, std::uint64_t index,
                                           std::uint64_t first_row, std::uint64_t rows) const {
  const tensor::TensorInfo& of = info(name);
  if (of.shape.size() != 3 || index >= of.shape[0] || first_row + rows > of.shape[1]) {
    stop("tensor " + name + " has no such rows");
  }
  const std::uint64_t stride = of.shape[2] * tensor::bytes_of(of.dtype);
  return {.type = dense_type(of.dtype, name),
          .rows = static_cast<std::uint32_t>(rows),
          .cols = static_cast<std::uint32_t>(of.shape[2]),
          .bytes = bytes(name).subspan((index * of.shape[1] + first_row) * stride, rows * stride)};
}

}  // namespace tenzro::testing
