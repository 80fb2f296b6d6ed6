// Any bytes as the body of a request: it is answered, the answer is JSON, and no fault is ours.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "tenzro/rpc/exchange.hpp"

namespace {

using tenzro::BufferRef;
namespace rpc = tenzro::rpc;

void demand(bool holds) {
  if (!holds) std::abort();
}

BufferRef answer(const BufferRef& body) {
  rpc::Exchange exchange = rpc::Exchange::parse(body, rpc::ParseOptions{});
  for (std::size_t i = 0; i < exchange.size(); ++i) {
    const std::optional<rpc::Call> call = exchange.take_call(i);
    if (call) exchange.set_outcome(i, rpc::Answer(rpc::NodeDrainAnswer{}));
    demand(!call || !exchange.method(i).empty());
  }
  demand(exchange.is_complete());
  return exchange.encode(tenzro::scalar_base64_kernels());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BufferRef reply = answer(BufferRef::copy_of(std::as_bytes(std::span(data, size))));
  // Quotes inside a string are escaped, so this is found only where it is an error's code.
  demand(reply.text().find(R"("error":{"code":-32603)") == std::string_view::npos);
  if (reply.empty()) return 0;
  constexpr std::string_view kUnparsable = R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700)";
  demand(!answer(reply).text().starts_with(kUnparsable));
  return 0;
}
