#include "startup.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tenzro/base/bytes.hpp"
#include "tenzro/gossip/gossip.hpp"
#include "tenzro/http/endpoint.hpp"

namespace tenzro::daemon {
namespace {

tl::unexpected<Refusal> refuse(const Error& error) {
  return tl::unexpected<Refusal>(Refusal{ExitCode::usage, error.message()});
}

Result<std::string> read_text(const std::string& path, std::size_t bytes_max) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    // An empty file gives no bytes, which the stream calls a failure.
    if (in.is_open() && in.peek() == std::ifstream::traits_type::eof() && !in.bad())
      return std::string();
    return fail(ErrorCode::io, path, "cannot be read");
  }
  std::string content = std::move(text).str();
  if (content.size() > bytes_max)
    return fail(ErrorCode::io, path, "is larger than this kind of file may be");
  return content;
}

std::string default_data_dir() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, before any thread exists
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/tenzrod";
  return "/var/lib/tenzrod";
}

Result<http::Options> http_options(const config::RpcSection& rpc) {
  http::Options options;
  const auto listen = http::ListenAddress::parse(rpc.listen);
  if (!listen) return fail(ErrorCode::invalid_params, "rpc.listen", listen.error().message());
  options.listen = *listen;
  options.allowed_hosts = rpc.allowed_hosts;
  options.body_bytes_max = rpc.max_body_bytes;
  options.bodies_bytes_max =
      std::max<std::size_t>(options.bodies_bytes_max, rpc.max_body_bytes * 2);
  options.tls_cert_file = rpc.tls_cert;
  options.tls_key_file = rpc.tls_key;
  if (rpc.tokens_file.empty()) return options;
  constexpr std::size_t kTokensBytesMax = 4UL << 20U;
  const auto text = read_text(rpc.tokens_file, kTokensBytesMax);
  if (!text) return tl::unexpected<Error>(text.error());
  auto tokens = http::TokenTable::parse(*text, rpc.tokens_file);
  if (!tokens) return tl::unexpected<Error>(tokens.error());
  if (tokens->empty()) {
    return fail(ErrorCode::invalid_params, rpc.tokens_file,
                "holds no token; remove rpc.tokens_file to allow everything");
  }
  options.tokens = std::move(*tokens);
  return options;
}

Status check_ids(const char* key, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (!hash_from_hex(id))
      return fail(ErrorCode::invalid_params, key,
                  "'" + echo(id) + "' is not 64 lower-case hex digits");
  }
  return {};
}

/// What the configuration's reader leaves to those who know what addresses and ids look like.
Status check_mesh(const config::Config& config) {
  if (const auto quic = http::ListenAddress::parse(config.quic.listen); !quic)
    return fail(ErrorCode::invalid_params, "quic.listen", quic.error().message());
  const std::string& advertise = config.quic.advertise;
  if (!advertise.empty() && advertise != "none") {
    if (const auto parsed = gossip::parse_bootstrap(advertise); !parsed || parsed->id)
      return fail(ErrorCode::invalid_params, "quic.advertise",
                  "'" + echo(advertise) + "' is neither host:port nor none");
  }
  for (const std::string& entry : config.gossip.bootstrap) {
    if (const auto parsed = gossip::parse_bootstrap(entry); !parsed)
      return fail(ErrorCode::invalid_params, "gossip.bootstrap", parsed.error().message());
  }
  if (auto status = check_ids("gossip.allow", config.gossip.allow); !status) return status;
  return check_ids("gossip.deny", config.gossip.deny);
}

}  // namespace

Started<Settings> read_settings(const Flags& flags) {
  Settings settings;
  if (!flags.config_file.empty()) {
    const auto text = read_text(flags.config_file, config::kConfigBytesMax);
    if (!text) return refuse(text.error());
    auto parsed = config::parse(*text, flags.config_file);
    if (!parsed) return refuse(parsed.error());
    settings.config = std::move(*parsed);
  }
  config::Config& config = settings.config;
  if (!flags.rpc_listen.empty()) config.rpc.listen = flags.rpc_listen;
  if (!flags.quic_listen.empty()) config.quic.listen = flags.quic_listen;
  config.gossip.bootstrap.insert(config.gossip.bootstrap.end(), flags.bootstrap.begin(),
                                 flags.bootstrap.end());
  settings.data_dir = !flags.data_dir.empty() ? flags.data_dir : config.node.data_dir;
  if (settings.data_dir.empty()) settings.data_dir = default_data_dir();
  auto http = http_options(config.rpc);
  if (!http) return refuse(http.error());
  settings.http = std::move(*http);
  if (!config.http.advertise.empty()) {
    const auto endpoint = http::Endpoint::parse(config.http.advertise);
    if (!endpoint)
      return refuse({ErrorCode::invalid_params, "http.advertise", endpoint.error().message()});
    settings.http.allowed_hosts.push_back(endpoint->host);  // what other nodes will call it
  }
  if (auto status = check_mesh(config); !status) return refuse(status.error());
  if (!settings.http.listen.is_loopback() && settings.http.tokens.empty() && !flags.is_insecure) {
    return refuse({ErrorCode::invalid_params, "rpc.listen",
                   settings.http.listen.text() +
                       " can be reached from other machines: set rpc.tokens_file, or say "
                       "--insecure to let everyone "
                       "who reaches it load, unload and run experts"});
  }
  return settings;
}

}  // namespace tenzro::daemon
