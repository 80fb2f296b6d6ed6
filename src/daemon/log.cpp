#include "log.hpp"

#include <memory>

#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tenzro::daemon {
namespace {

/// The message as a JSON string, quotes included.
class JsonText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const nlohmann::json text(std::string(message.payload.data(), message.payload.size()));
    const std::string quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }

  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

}  // namespace

void set_up_log(const config::NodeSection& node) {
  auto logger = std::make_shared<spdlog::logger>("tenzrod",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JsonText>('*');
  formatter->set_pattern(node.log_format == "json"
                             ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})"
                             : "%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(node.log_level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace tenzro::daemon
