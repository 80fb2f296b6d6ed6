#pragma once
/// \file
/// The CPU backend: integer and f32 kernels for x86-64, chosen at run time.
///
/// Rules
///  - `isa` absent: the best that this CPU has. Present: that one, or an error that says what is
///    missing. Why: a forced ISA that silently falls back makes a test or a bug report worthless.
///  - Every ISA gives the same bits (profile `exact` of compute/backend.hpp), from the same
///    resident layout.
///  - Profile `fast` multiplies bf16 weights by rows rounded to bf16 where the CPU has avx512bf16
///    (twice as fast), and with AMX quantised ones too, 9 rows and more; everything else runs its
///    exact kernel. See docs/adr for why no library.
///  - Weights keep their storage type: f16 and bf16 stay two bytes; Q4_K grows from 4.5 to 4.625
///    bits, Q6_K from 6.5625 to 6.625, the others not at all. Outputs are padded to 16.
///  - A run's scratch: at most 29/32 of the input's bytes for its converted copies (13/32 for
///    Q8_0, 1/2 for bf16), and at most `scratch_bytes_max` for the rows between the two halves of
///    the FFN; larger jobs go in waves. A wave is at least 8 rows. Tile kernels want the rows of a
///    wave once more, as tiles, under the same limit.
/// Thread: any; a backend is immutable after construction.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"

namespace tenzro::kernels {

/// Ordered: each one includes those before it. `amx` is its tiles of int8 and of bf16, for 9 rows
/// and more of quantised weights; fewer rows, and other weights, run the kernels of avx512vnni.
enum class Isa : std::uint8_t { scalar, avx2, avx512, avx512vnni, amx };

/// As TENZRO_ISA spells it.
[[nodiscard]] std::string_view name_of(Isa isa);
[[nodiscard]] std::optional<Isa> isa_from_name(std::string_view name);
/// Whether this CPU, and this build, can run every kernel of `isa`.
[[nodiscard]] bool is_available(Isa isa);
[[nodiscard]] Isa best_isa();

struct CpuOptions {
  std::optional<Isa> isa;
  std::size_t scratch_bytes_max = std::size_t{32} << 20U;
};

/// Error: infrastructure, where the forced ISA is not available here.
[[nodiscard]] Result<std::unique_ptr<compute::Backend>> make_cpu_backend(const CpuOptions& options);

/// The fastest base64 codec that `isa` allows. Requires is_available(isa).
[[nodiscard]] Base64Kernels base64_kernels(Isa isa);

}  // namespace tenzro::kernels
