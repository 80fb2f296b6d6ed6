// The client against a real listener, and the program's exit codes.
#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

#include "support.hpp"
#include "unit/http/harness.hpp"

namespace tenzro::cli {
namespace {

using http::Event;
using http::TestServer;

std::string url_of(const TestServer& server) {
  return "http://127.0.0.1:" + std::to_string(server.port());
}

/// A port that nothing listens on: the listener that had it is gone.
std::uint16_t closed_port() {
  return TestServer().port();
}

TEST(HttpNode, CallsWithItsTokenAndReadsTheResult) {
  TestServer server(http::options_with([](http::Options& o) {
    o.tokens =
        *http::TokenTable::parse("me read " + to_hex(crypto::sha256("secret")) + "\n", "tokens");
  }));
  Settings settings;
  settings.rpc_url = url_of(server);
  settings.token = "secret";
  HttpNode node(settings);
  server.answer = [](std::string_view) { return R"({"jsonrpc":"2.0","id":1,"result":[7]})"; };
  const Outcome<Json> result = node.call({.method = "m", .params = {{"a", 1}}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(dump(*result), "[7]");
  const Event event = server.wait_for(Event::Kind::rpc);
  EXPECT_EQ(event.caller.token_name, "me");
  const Json sent = Json::parse(event.text);
  EXPECT_EQ(sent["jsonrpc"], "2.0");
  EXPECT_EQ(sent["method"], "m");
  EXPECT_EQ(dump(sent["params"]), R"({"a":1})");
}

TEST(HttpNode, GetsPagesOnOneConnection) {
  TestServer server;
  Settings settings;
  settings.rpc_url = url_of(server);
  HttpNode node(settings);
  for (int i = 0; i < 3; ++i) {
    const Outcome<Page> page = node.get("/healthz");
    ASSERT_TRUE(page);
    EXPECT_EQ(page->status, 200);
    EXPECT_EQ(page->body, "a page\n");
  }
  EXPECT_EQ(server.stats().connections, 1U);
}

TEST(HttpNode, UploadsAFileAndTakesTheUriOfTheAnswer) {
  const Directory directory;
  TestServer server;
  server.takes_uploads = false;
  Settings settings;
  settings.rpc_url = url_of(server);
  const std::string bytes(700'000, 'w');
  const std::string file = directory.file("weights", bytes);
  std::string received;
  std::thread store([&] {
    const Event begun = server.wait_for(Event::Kind::put_begun);
    while (received.size() < begun.declared) {
      server.on_loop([&](http::Server& s) { s.put_continue(begun.id); });
      received += server.wait_for(Event::Kind::put_piece).text;
    }
    server.on_loop([&](http::Server& s) { s.put_continue(begun.id); });
    server.reply(begun.id, 201, R"({"tenzro_uri":"tenzro://blob/x"})");
  });
  HttpNode node(settings);
  const Outcome<std::string> uri = node.upload(file);
  store.join();
  ASSERT_TRUE(uri) << uri.error().message;
  EXPECT_EQ(*uri, "tenzro://blob/x");
  EXPECT_TRUE(received == bytes);
}

TEST(HttpNode, AnEarlyRefusalOfAnUploadIsWhatTheUserSees) {
  const Directory directory;
  TestServer server(http::options_with([](http::Options& o) { o.put_bytes_max = 10; }));
  Settings settings;
  settings.rpc_url = url_of(server);
  HttpNode node(settings);
  const Outcome<std::string> uri =
      node.upload(directory.file("weights", std::string(5'000'000, 'w')));
  ASSERT_FALSE(uri);
  EXPECT_EQ(uri.error().code, ExitCode::refused);
  EXPECT_EQ(uri.error().message, "upload: HTTP 413: the body is larger than 10 bytes");
}

TEST(HttpNode, ACallThatTakesTooLongEnds) {
  TestServer server;
  Settings settings;
  settings.rpc_url = url_of(server);
  settings.timeout = std::chrono::seconds(1);
  HttpNode node(settings);
  server.answer = [](std::string_view) { return ""; };
  const Outcome<Json> result = node.call({.method = "m", .params = {}});
  EXPECT_EQ(server.wait_for(Event::Kind::gone).kind, Event::Kind::gone);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ExitCode::unreachable);
}

/// A run of the real program.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments, const char* out = "/dev/null",
                   const char* errors = "/dev/null") {
    arguments.insert(arguments.begin(), TENZRO_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY, 0);
    if (posix_spawn(&pid_, TENZRO_PROGRAM, &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }

  void interrupt() const { ::kill(pid_, SIGINT); }

  [[nodiscard]] int exit_code() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST(Program, ExitCodesSayWhoIsToBlame) {
  TestServer server;
  EXPECT_EQ(Program({"--version"}).exit_code(), 0);
  EXPECT_EQ(Program({"status", "--nonsense"}).exit_code(), 2);
  EXPECT_EQ(Program({"status", "--rpc", "127.0.0.1:" + std::to_string(closed_port())}).exit_code(),
            3);
  EXPECT_EQ(Program({"doctor", "--rpc", "127.0.0.1:" + std::to_string(closed_port())}).exit_code(),
            3);
  server.answer = [](std::string_view) {
    return R"({"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}})";
  };
  EXPECT_EQ(Program({"status", "--rpc", url_of(server)}).exit_code(), 1);
  server.on_loop([&](http::Server&) {
    server.answer = [](std::string_view) { return R"({"jsonrpc":"2.0","id":1,"result":{}})"; };
  });
  EXPECT_EQ(Program({"status", "--rpc", url_of(server)}).exit_code(), 0);
}

TEST(Program, OutputWithoutAPlaceIsAnErrorThatIsSaid) {
  TestServer server;
  server.answer = [](std::string_view) { return R"({"jsonrpc":"2.0","id":1,"result":{}})"; };
  const Directory directory;
  for (const auto& command :
       {std::vector<std::string>{"status", "--json", "--rpc", url_of(server)}, {"--help"}}) {
    const std::string errors = directory.file("errors", "");
    EXPECT_EQ(Program(command, "/dev/full", errors.c_str()).exit_code(), 1);
    std::ifstream file(errors);
    std::string said;
    std::getline(file, said);
    EXPECT_EQ(said, "tenzro: cannot write the output");
  }
}

TEST(Program, CtrlCEndsACall) {
  TestServer server;
  server.answer = [](std::string_view) { return ""; };
  const Program program({"status", "--rpc", url_of(server)});
  const Event event = server.wait_for(Event::Kind::rpc);
  program.interrupt();
  EXPECT_EQ(server.wait_for(Event::Kind::gone).id, event.id);
  EXPECT_EQ(program.exit_code(), 130);
}

}  // namespace
}  // namespace tenzro::cli
