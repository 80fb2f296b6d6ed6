// The same server behind TLS, with a certificate made for the test.
#include <cstdio>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tenzro/http/client.hpp"

#include "harness.hpp"
#include "support/loop_thread.hpp"

namespace tenzro::http {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};

using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using File = std::unique_ptr<FILE, Free<std::fclose>>;

/// A directory of its own with a fresh key and self-signed certificate.
class CertificateFiles {
 public:
  CertificateFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tls_test.XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate(X509_new());
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    const File cert_out(std::fopen(cert().c_str(), "w"));
    PEM_write_X509(cert_out.get(), certificate.get());
    const File key_out(std::fopen(this->key().c_str(), "w"));
    PEM_write_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

  ~CertificateFiles() { std::filesystem::remove_all(directory_); }

  CertificateFiles(const CertificateFiles&) = delete;
  CertificateFiles& operator=(const CertificateFiles&) = delete;

  [[nodiscard]] std::string cert() const { return directory_ + "/cert.pem"; }

  [[nodiscard]] std::string key() const { return directory_ + "/key.pem"; }

  [[nodiscard]] Options options() const {
    Options options;
    options.tls_cert_file = cert();
    options.tls_key_file = key();
    return options;
  }

 private:
  std::string directory_;
};

class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port)
      : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_.get())) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const void* const raw = &address;
    is_connected_ = ::connect(fd_, static_cast<const sockaddr*>(raw), sizeof address) == 0 &&
                    SSL_set_fd(ssl_.get(), fd_) == 1 && SSL_connect(ssl_.get()) == 1;
  }

  ~TlsClient() { ::close(fd_); }

  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  [[nodiscard]] bool is_connected() const { return is_connected_; }

  void send(std::string_view bytes) {
    ASSERT_EQ(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }

  /// Exactly `size` bytes, or fewer at the end of the connection.
  std::string receive(std::size_t size) {
    std::string all(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const int n = SSL_read(ssl_.get(), all.data() + got, static_cast<int>(size - got));
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    last_error_ = got < size ? SSL_get_error(ssl_.get(), 0) : SSL_ERROR_NONE;
    all.resize(got);
    return all;
  }

  Response receive_response() {
    std::string head;
    while (head.size() < 4 || head.substr(head.size() - 4) != "\r\n\r\n") {
      const std::string byte = receive(1);
      if (byte.empty()) return {};
      head += byte;
    }
    Response response = parse_head(head);
    response.body = receive(std::stoul(response.headers.at("Content-Length")));
    return response;
  }

  /// Whether the end was said by the peer (close_notify), not cut.
  bool sees_clean_end() { return receive(1).empty() && last_error_ == SSL_ERROR_ZERO_RETURN; }

 private:
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Free<SSL_free>> ssl_;
  int fd_ = -1;
  int last_error_ = 0;
  bool is_connected_ = false;
};

TEST(Tls, ServesSmallAndLargeBodiesAndSaysTheEnd) {
  const CertificateFiles files;
  TestServer server(files.options());
  TlsClient client(server.port());
  ASSERT_TRUE(client.is_connected());
  client.send(post("secret"));
  EXPECT_EQ(client.receive_response().body, "secret");
  const std::string large(3'000'000, 'x');
  std::thread sender([&] { client.send(post("hold")); });
  sender.join();
  Event held = server.wait_for(Event::Kind::rpc);
  while (held.text != "hold") held = server.wait_for(Event::Kind::rpc);
  server.reply(held.id, 200, large);
  EXPECT_TRUE(client.receive_response().body == large);
  client.send(post("bye", "Connection: close\r\n"));
  EXPECT_EQ(client.receive_response().body, "bye");
  EXPECT_TRUE(client.sees_clean_end());
}

TEST(Tls, AClientThatLeavesIsReported) {
  const CertificateFiles files;
  TestServer server(files.options());
  RequestRef id{};
  {
    TlsClient client(server.port());
    client.send(post("hold"));
    id = server.wait_for(Event::Kind::rpc).id;
  }
  EXPECT_EQ(server.wait_for(Event::Kind::gone).id, id);
}

TEST(Tls, PlainHttpOnATlsPortIsClosed) {
  const CertificateFiles files;
  TestServer server(files.options());
  RawClient client(server.port());
  ASSERT_TRUE(client.send(post("x")));
  EXPECT_EQ(client.receive_all().find("HTTP"), std::string::npos);
}

TEST(Tls, ASlowHandshakeIsClosed) {
  const CertificateFiles files;
  Options options = files.options();
  options.header_timeout = std::chrono::milliseconds(50);
  TestServer server(std::move(options));
  RawClient client(server.port());
  EXPECT_TRUE(client.sees_end());
}

TEST(Tls, ADownloadIsOfServersWithACertificateThatIsTrustedAlone) {
  const CertificateFiles files;
  TestServer server(files.options());
  testing::LoopThread thread;
  std::unique_ptr<Client> client;
  std::promise<Downloaded> promise;
  thread.run([&] {
    client = std::make_unique<Client>(thread.loop());
    BufferRef buffer = BufferRef::allocate(100);
    const std::span<std::byte> room = buffer.mutable_bytes();
    client->download({.url = "https://127.0.0.1:" + std::to_string(server.port()) + "/file",
                      .buffer = std::move(buffer),
                      .room = room,
                      .uses_proxy = false},
                     [&](Downloaded downloaded) { promise.set_value(std::move(downloaded)); });
  });
  const Downloaded downloaded = promise.get_future().get();
  thread.run([&] { client.reset(); });
  EXPECT_EQ(downloaded.status, 0);
  EXPECT_EQ(downloaded.received, 0U);
  EXPECT_TRUE(downloaded.is_final);  // no second attempt
  EXPECT_NE(downloaded.failure.find("certificate"), std::string::npos) << downloaded.failure;
}

TEST(Tls, AMissingOrForeignKeyIsAnErrorThatNamesTheFile) {
  const CertificateFiles files;
  const CertificateFiles others;
  exec::Loop loop;
  TestServer handler;
  Options options = files.options();
  options.listen.port = 0;
  options.tls_key_file = others.key();
  auto foreign = Server::listen(loop, options, handler);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().where, others.key());
  options.tls_key_file = "/nonexistent/key.pem";
  auto missing = Server::listen(loop, options, handler);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, "/nonexistent/key.pem");
  options.tls_key_file.clear();
  EXPECT_FALSE(Server::listen(loop, options, handler));
}

}  // namespace
}  // namespace tenzro::http
