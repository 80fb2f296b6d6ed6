#pragma once
/// \file
/// What this machine gives at most, measured: reading memory, and the products of each kind.
///
/// A ceiling is a body that does a known amount of work; who holds a kernel against it times both
/// in turn. Memory is read as the kernels' weights lie: anonymous, on huge pages where allowed.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenzro::bench {

/// Bytes that are worth reading: mapped, written once.
class ColdMemory {
 public:
  /// Empty data() where there is no such memory.
  explicit ColdMemory(std::size_t bytes);
  ~ColdMemory();
  ColdMemory(const ColdMemory&) = delete;
  ColdMemory& operator=(const ColdMemory&) = delete;

  [[nodiscard]] const std::uint8_t* data() const { return data_; }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void* mapping_ = nullptr;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A way to read memory; which one draws most differs between processors, so all are measured and
/// the best counts. `bytes` is a multiple of 16 KiB.
struct Reader {
  std::string name;
  std::uint64_t (*read)(const std::uint8_t* data, std::size_t bytes);
};

[[nodiscard]] std::vector<Reader> readers();

struct Products {
  std::string name;
  double giga = 0;             ///< operations a call, in 1e9; a multiply-add is two
  std::function<void()> call;  ///< null where this CPU cannot
};

/// FMA in f32, VNNI, AMX int8, AMX bf16, in this order.
[[nodiscard]] std::vector<Products> products();

}  // namespace tenzro::bench
