// The envelope of JSON-RPC, by the table in tests/data/rpc/conformance.json.
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "requests.hpp"

namespace tenzro::rpc {
namespace {

using nlohmann::json;

/// Equal, but for the ends of error messages.
void expect_reply(const json& reply, const json& expected) {
  if (expected.is_array()) {
    ASSERT_TRUE(reply.is_array());
    ASSERT_EQ(reply.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expect_reply(reply[i], expected[i]);
    return;
  }
  json shortened = reply;
  if (expected.contains("error")) {
    ASSERT_TRUE(reply.contains("error"));
    auto& message = shortened["error"]["message"].get_ref<std::string&>();
    message.resize(
        std::min(message.size(), expected["error"]["message"].get<std::string>().size()));
  }
  EXPECT_EQ(shortened, expected);
}

TEST(Conformance, EveryBodyOfTheTableGetsItsReply) {
  std::ifstream file(TENZRO_TEST_DATA "/rpc/conformance.json");
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 50U);
  for (const json& each : cases) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const json reply = reply_to(each["body"].get<std::string>());
    if (each["reply"].is_null()) {
      EXPECT_TRUE(reply.is_discarded()) << reply;
    } else {
      expect_reply(reply, each["reply"]);
    }
  }
}

}  // namespace
}  // namespace tenzro::rpc
