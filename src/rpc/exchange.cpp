#include "tenzro/rpc/exchange.hpp"

#include <string>
#include <utility>

#include "tenzro/base/assert.hpp"

#include "exchange_parser.hpp"
#include "reply.hpp"

namespace tenzro::rpc {
namespace {

tl::unexpected<Error> refuse_reply(std::size_t bytes, std::size_t bytes_max) {
  return fail(ErrorCode::infrastructure, "",
              "the reply would take about " + std::to_string(bytes) + " bytes, and may take " +
                  std::to_string(bytes_max) + ": ask for less at a time");
}

}  // namespace

Error too_many_answers() {
  return {ErrorCode::busy, "", "busy: the node holds too many answers that are not sent yet"};
}

Exchange Exchange::parse(const BufferRef& body, const ParseOptions& options) {
  return ExchangeParser(options).run(body.text());
}

std::optional<Call> Exchange::take_call(std::size_t index) {
  TENZRO_ASSERT(index < items_.size());
  return std::exchange(items_[index].call, std::nullopt);
}

std::string_view Exchange::method(std::size_t index) const {
  TENZRO_ASSERT(index < items_.size());
  return items_[index].method;
}

void Exchange::set_outcome(std::size_t index, Result<Answer> outcome, std::size_t room) {
  TENZRO_ASSERT(index < items_.size());
  Item& item = items_[index];
  TENZRO_ASSERT(!item.call.has_value());
  TENZRO_ASSERT(!item.outcome.has_value());
  give(item, std::move(outcome), room);
  --open_;
}

void Exchange::give(Item& item, Result<Answer> outcome, std::size_t room) {
  const std::size_t own = outcome ? json_bytes(*outcome) : 0;
  const std::size_t bytes = reply_bytes_ + own;
  if (outcome && bytes > reply_bytes_max_) {
    item.outcome.emplace(refuse_reply(bytes, reply_bytes_max_));
  } else if (own > kSmallAnswerBytes && bytes > room) {
    item.outcome.emplace(fail(too_many_answers()));
  } else {
    item.outcome = std::move(outcome);
    reply_bytes_ = bytes;
  }
}

BufferRef Exchange::encode(const Base64Kernels& base64) const {
  TENZRO_ASSERT(is_complete());
  JsonWriter out;
  bool is_silent = true;
  for (const Item& item : items_) {
    if (item.id_json.empty()) continue;
    if (is_silent && is_batch_) out.begin_array();
    is_silent = false;
    write_reply(out, item.id_json, *item.outcome);
  }
  if (is_silent) return {};
  if (is_batch_) out.end_array();
  return out.finish(base64);
}

}  // namespace tenzro::rpc
