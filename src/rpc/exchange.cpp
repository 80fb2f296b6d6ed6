#include "tenzro/rpc/exchange.hpp"

#include <utility>

#include "tenzro/base/assert.hpp"

#include "exchange_parser.hpp"
#include "reply.hpp"

namespace tenzro::rpc {

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

void Exchange::set_outcome(std::size_t index, Result<Answer> outcome) {
  TENZRO_ASSERT(index < items_.size());
  Item& item = items_[index];
  TENZRO_ASSERT(!item.call.has_value());
  TENZRO_ASSERT(!item.outcome.has_value());
  item.outcome = std::move(outcome);
  --open_;
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
