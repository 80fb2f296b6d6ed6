#include "tenzro/net/endpoint.hpp"

#include <utility>

#include "endpoint_state.hpp"

namespace tenzro::net {
namespace {

/// The handle: when it goes, the state is abandoned, and dies with the last handler of the loop.
class EndpointHandle final : public Endpoint {
 public:
  explicit EndpointHandle(std::shared_ptr<EndpointState> state) : state_(std::move(state)) {}

  EndpointHandle(const EndpointHandle&) = delete;
  EndpointHandle& operator=(const EndpointHandle&) = delete;

  ~EndpointHandle() override { state_->abandon(); }

  [[nodiscard]] std::string address() const override { return state_->address(); }

  void call(PeerCallId call, const Target& target, wire::Protocol protocol,
            std::vector<BufferRef> request) override {
    state_->call(call, target, protocol, std::move(request));
  }

  void cancel(PeerCallId call) override { state_->cancel(call); }

  void reply(PeerRequestId request, std::vector<BufferRef> reply) override {
    state_->reply(request, std::move(reply));
  }

  void refuse(PeerRequestId request) override { state_->refuse(request); }

  [[nodiscard]] std::size_t connections() const override { return state_->connections(); }

  [[nodiscard]] Totals totals() const override { return state_->totals(); }

  void close(std::function<void()> done) override { state_->close(std::move(done)); }

 private:
  std::shared_ptr<EndpointState> state_;
};

}  // namespace

Result<std::unique_ptr<Endpoint>> listen_with(exec::Loop& loop, const crypto::KeyPair& identity,
                                              const Options& options, Handler& handler,
                                              Seams seams) {
  auto state = std::make_shared<EndpointState>(loop.context(), options, handler, std::move(seams));
  if (Status opened = state->open(identity); !opened) return fail(std::move(opened.error()));
  return std::make_unique<EndpointHandle>(std::move(state));
}

Result<std::unique_ptr<Endpoint>> Endpoint::listen(exec::Loop& loop,
                                                   const crypto::KeyPair& identity,
                                                   const Options& options, Handler& handler) {
  return listen_with(loop, identity, options, handler, {});
}

}  // namespace tenzro::net
