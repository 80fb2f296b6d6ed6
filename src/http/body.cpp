#include "body.hpp"

#include <algorithm>
#include <cstring>

#include "tenzro/base/assert.hpp"

namespace tenzro::http {
namespace {

constexpr std::size_t kChunkedStartBytes = 64UL << 10U;
constexpr std::size_t kFreeBytes = 64UL << 10U;

std::size_t clamp_to_size(std::uint64_t bytes, std::size_t bytes_max) {
  return bytes < bytes_max ? static_cast<std::size_t>(bytes) : bytes_max;
}

/// What a body of that size counts for: small ones are free, so that large ones never shut them
/// out. At most `connections_max` of them are there at once.
std::size_t charge_of(std::size_t bytes) {
  return bytes <= kFreeBytes ? 0 : bytes;
}

}  // namespace

Body::Body(const Plan& plan, ByteBudget& budget)
    : plan_(plan), reservation_(budget), is_complete_(plan.length == 0U) {
  TENZRO_ASSERT(plan.length.value_or(0) <= plan.bytes_max);
}

/// Size of the buffer that replaces a full (or absent) one.
std::size_t Body::next_size() const {
  if (plan_.kind == Kind::pieces) {
    const std::uint64_t left = plan_.length.value_or(UINT64_MAX) - received_;
    return clamp_to_size(left, kPieceBytes);
  }
  if (plan_.length) return static_cast<std::size_t>(*plan_.length);
  const std::size_t doubled = std::max(target_.size() * 2, kChunkedStartBytes);
  return std::min(doubled, static_cast<std::size_t>(plan_.bytes_max));
}

/// How much of the buffer may be filled next. A client that says a large length and sends nothing
/// takes address space, which is plenty, and no share of the budget.
std::size_t Body::next_grant() const {
  if (plan_.kind == Kind::pieces || !plan_.length) return target_.size();
  return std::min(target_.size(), std::max(granted_ * 2, kChunkedStartBytes));
}

bool Body::make_room() {
  if (filled_ < granted_) return true;
  if (filled_ == target_.size()) {
    const std::size_t size = next_size();
    if (!plan_.length && !reservation_.grow_to(charge_of(size))) return false;
    BufferRef larger = BufferRef::allocate(size);
    if (filled_ != 0) std::memcpy(larger.mutable_bytes().data(), target_.bytes().data(), filled_);
    target_ = std::move(larger);
  }
  const std::size_t grant = next_grant();
  if (!reservation_.grow_to(charge_of(grant))) return false;
  granted_ = grant;
  return true;
}

Body::Progress Body::take_from(Input& input, RequestParser& parser) {
  while (!is_complete_) {
    const bool is_full = filled_ != 0 && filled_ == target_.size();
    if (is_full && plan_.kind == Kind::pieces) return Progress::piece_ready;
    if (is_full && received_ == plan_.bytes_max) {
      // A chunked body that ends exactly at its limit still has its last, empty chunk to come.
      return decode_chunks(input, parser);
    }
    if (!make_room()) return Progress::over_budget;
    if (input.unread().empty()) return Progress::need_input;
    if (!plan_.length) {
      const Progress progress = decode_chunks(input, parser);
      if (progress != Progress::piece_ready) return progress;
      continue;
    }
    const std::span<std::byte> space = direct_space();
    const std::size_t moved = std::min(space.size(), input.unread().size());
    std::memcpy(space.data(), input.unread().data(), moved);
    input.consume(moved);
    commit_direct(moved);
  }
  return Progress::done;
}

/// `piece_ready` means here: the buffer is full.
Body::Progress Body::decode_chunks(Input& input, RequestParser& parser) {
  const std::span<std::byte> space = target_.mutable_bytes().subspan(filled_);
  const RequestParser::Step step = parser.feed_chunked(input.unread(), space);
  input.consume(step.consumed);
  filled_ += step.produced;
  received_ += step.produced;
  if (received_ > plan_.bytes_max) return Progress::too_large;
  switch (step.outcome) {
    case RequestParser::Outcome::done:
      is_complete_ = true;
      return Progress::done;
    case RequestParser::Outcome::need_input:
      return Progress::need_input;
    case RequestParser::Outcome::need_space:
      return received_ >= plan_.bytes_max ? Progress::too_large : Progress::piece_ready;
    case RequestParser::Outcome::too_large:
      return Progress::too_large;
    case RequestParser::Outcome::bad:
      break;
  }
  return Progress::bad;
}

std::span<std::byte> Body::direct_space() {
  if (!plan_.length || is_complete_ || filled_ == granted_) return {};
  const std::uint64_t left = *plan_.length - received_;
  const std::span<std::byte> space = target_.mutable_bytes().subspan(filled_, granted_ - filled_);
  return space.first(clamp_to_size(left, space.size()));
}

void Body::commit_direct(std::size_t bytes) {
  TENZRO_ASSERT(bytes <= target_.size() - filled_);
  filled_ += bytes;
  received_ += bytes;
  is_complete_ = received_ == *plan_.length;
}

BufferRef Body::take() {
  BufferRef taken = filled_ == 0 ? BufferRef{} : target_.slice(0, filled_);
  target_ = {};
  filled_ = 0;
  granted_ = 0;
  return taken;
}

}  // namespace tenzro::http
