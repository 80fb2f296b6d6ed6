#pragma once
/// \file
/// Body: a request body on its way into one buffer, or into a row of pieces.
///
/// Kinds
///  - whole: one buffer of the size the client said; a chunked body grows by doubling, up to its
///    limit.
///  - pieces: buffers of kPieceBytes; the owner takes each before more is received.
/// A body of known length may be received straight into its buffer (`direct_space`); its buffer
/// keeps its address until `take`. What may be filled so far counts against the budget until the
/// Body dies: it grows by doubling as bytes arrive, and small bodies are free. Thread: the loop's.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tenzro/base/buffer.hpp"
#include "tenzro/http/byte_budget.hpp"

#include "input.hpp"
#include "request_parser.hpp"

namespace tenzro::http {

class Body {
 public:
  enum class Kind : std::uint8_t { whole, pieces };

  struct Plan {
    Kind kind = Kind::whole;
    /// Nothing where the body is chunked.
    std::optional<std::uint64_t> length;
    std::uint64_t bytes_max = 0;
  };

  enum class Progress : std::uint8_t {
    need_input,
    piece_ready,
    done,
    bad,          ///< malformed chunks
    too_large,    ///< above the plan's limit
    over_budget,  ///< the server holds too many bytes of bodies
  };

  static constexpr std::size_t kPieceBytes = 256UL << 10U;

  /// Requires length <= bytes_max.
  Body(const Plan& plan, ByteBudget& budget);

  /// Moves what it can from `input`; `parser` decodes chunks.
  [[nodiscard]] Progress take_from(Input& input, RequestParser& parser);
  /// Where the next read may write; empty for a chunked body, a full piece and a complete body.
  [[nodiscard]] std::span<std::byte> direct_space();
  void commit_direct(std::size_t bytes);

  /// Whether bytes are there that `take` would give.
  [[nodiscard]] bool has_bytes() const { return filled_ != 0; }

  [[nodiscard]] bool is_complete() const { return is_complete_; }

  /// The bytes received since the last take. Requires that no direct read is in flight.
  [[nodiscard]] BufferRef take();

 private:
  [[nodiscard]] std::size_t next_grant() const;
  [[nodiscard]] bool make_room();
  [[nodiscard]] std::size_t next_size() const;
  [[nodiscard]] Progress decode_chunks(Input& input, RequestParser& parser);

  Plan plan_;
  Reservation reservation_;
  BufferRef target_;
  std::size_t filled_ = 0;
  std::size_t granted_ = 0;  ///< of the target, at least filled_
  std::uint64_t received_ = 0;
  bool is_complete_ = false;
};

}  // namespace tenzro::http
