// What a source, a redirect and an index may name.
#include "source_address.hpp"

#include <gtest/gtest.h>

namespace tenzro::prepare {
namespace {

std::string text_of(const std::string& source, PlainHttp rule = PlainHttp::loopback_only) {
  const auto address = SourceAddress::parse(source, rule);
  if (!address) return "! " + address.error().message();
  return (address->is_remote ? "remote " : "local ") + address->root +
         (address->single_file.empty() ? "" : " " + address->single_file);
}

TEST(SourceAddress, IsAFolderAFileOrTheBaseOfUrls) {
  EXPECT_EQ(text_of("/data/m"), "local /data/m");
  EXPECT_EQ(text_of("file:///data/m"), "local /data/m");
  EXPECT_EQ(text_of("file://localhost/data/m"), "local /data/m");
  EXPECT_EQ(text_of("file://localhost/x.gguf"), "local / x.gguf");
  EXPECT_EQ(text_of("file://elsewhere/data/m"),
            "! source: is a file of another machine: file:///folder");
  EXPECT_EQ(text_of("/data/m/x.safetensors"), "local /data/m x.safetensors");
  EXPECT_EQ(text_of("x.safetensors"), "local . x.safetensors");
  EXPECT_EQ(text_of("/x.safetensors"), "local / x.safetensors");
  EXPECT_EQ(text_of("/data/m/x.gguf"), "local /data/m x.gguf");
  EXPECT_EQ(text_of("/data/a%20b.gguf"), "local /data a%20b.gguf");
  EXPECT_EQ(text_of("https://h/m/a%20b-00001-of-00002.gguf"),
            "remote https://h/m a b-00001-of-00002.gguf");
  EXPECT_EQ(text_of("https://h/a/b/"), "remote https://h/a/b");
  EXPECT_EQ(text_of("https://h"), "remote https://h");
  EXPECT_EQ(text_of("https://h.safetensors/"), "remote https://h.safetensors");
  EXPECT_EQ(text_of("https://h:8443/a/x.safetensors"), "remote https://h:8443/a x.safetensors");
}

TEST(SourceAddress, PlainHttpIsForThisMachineUnlessConfigured) {
  for (const char* here : {"http://localhost:1/m", "http://127.0.0.1/m", "http://127.1.2.3:80/m",
                           "http://[::1]:9/m", "http://LOCALHOST/m"}) {
    EXPECT_TRUE(text_of(here).starts_with("remote ")) << here;
  }
  for (const char* elsewhere :
       {"http://example.org/m", "http://127.0.0.1.example.org/m", "http://128.0.0.1/m",
        "http://localhost.example/m", "http://[::2]/m", "http://0.0.0.0/m"}) {
    EXPECT_TRUE(text_of(elsewhere).starts_with("! source: URL '")) << elsewhere;
    EXPECT_NE(text_of(elsewhere).find("plain_http"), std::string::npos) << elsewhere;
    EXPECT_TRUE(text_of(elsewhere, PlainHttp::anywhere).starts_with("remote ")) << elsewhere;
  }
}

TEST(SourceAddress, WhatTwoParsersMightReadApartIsRefused) {
  for (const char* bad : {"",
                          "file://",
                          "ftp://x",
                          "https://",
                          "https://u:p@h/m",
                          "http://127.1/m",
                          "http://127.0.0.1.5/m",
                          "http://0127.0.0.1/m",
                          "http://0/m",
                          "https://h@evil/m",
                          "https://h/a b",
                          "https://h/a?b=c",
                          "https://h/a#b",
                          "https://h:0/a",
                          "https://h:99999/a",
                          "https://h:x/a",
                          "https://h\\evil/a",
                          "https://[::1/a",
                          "https://h\"/a",
                          "file://https://h/a",
                          "https:///a",
                          "https://h/a%2Fb.gguf",
                          "https://h/a%0.gguf",
                          "https://h/%zz.gguf",
                          "https://h/a%00.safetensors",
                          "https://h/%+1.gguf"}) {
    EXPECT_TRUE(text_of(bad).starts_with("! source")) << bad << " -> " << text_of(bad);
  }
}

TEST(SourceAddress, OriginHasItsPortAndNoCapitals) {
  EXPECT_EQ(*origin_of("https://Hub.Example/a"), "https://hub.example:443");
  EXPECT_EQ(*origin_of("http://hub.example:8080?x"), "http://hub.example:8080");
  EXPECT_FALSE(origin_of("hub.example"));
}

TEST(SourceAddress, RedirectsNeverLeaveTls) {
  const auto goes = [](const char* from, const char* to) {
    return check_redirect(from, to, PlainHttp::loopback_only).has_value();
  };
  EXPECT_TRUE(goes("https://a/x", "https://b/y?z=1"));
  EXPECT_TRUE(goes("http://localhost/x", "https://b/y"));
  EXPECT_TRUE(goes("http://localhost/x", "http://127.0.0.1:8/y"));
  EXPECT_FALSE(goes("https://a/x", "http://a/x"));
  EXPECT_FALSE(goes("https://a/x", "http://localhost/x"));
  EXPECT_FALSE(goes("http://localhost/x", "http://b/y"));
  EXPECT_FALSE(goes("https://a/x", "file:///etc/passwd"));
  EXPECT_FALSE(check_redirect("https://a/x", "http://b/y", PlainHttp::anywhere));
}

TEST(SourceAddress, NamesOfAnIndexAreFilesOfTheFolder) {
  for (const char* good : {"model-00001-of-00002.safetensors", "a", "..a", "x y.safetensors"})
    EXPECT_TRUE(check_file_name(good)) << good;
  for (const std::string& bad :
       {std::string(""), std::string("."), std::string(".."), std::string("../x"),
        std::string("/etc/passwd"), std::string("a/b"), std::string("a\\b"), std::string("a\0b", 3),
        std::string("a\nb"), std::string(256, 'a')}) {
    EXPECT_FALSE(check_file_name(bad)) << bad;
  }
}

TEST(SourceAddress, FileNamesAreEncodedIntoUrls) {
  const auto address = SourceAddress::parse("https://h/a", PlainHttp::loopback_only);
  EXPECT_EQ(address->url_of("model-1.safetensors"), "https://h/a/model-1.safetensors");
  EXPECT_EQ(address->url_of("x y%2f?#.bin"), "https://h/a/x%20y%252f%3F%23.bin");
  const auto single =
      SourceAddress::parse("https://h/a/b%20c.safetensors", PlainHttp::loopback_only);
  EXPECT_EQ(single->url_of(single->single_file), "https://h/a/b%20c.safetensors");
}

TEST(SourceAddress, AHubsAddressHasOneOfEachCommit) {
  const std::string commit(40, '1');

  const struct {
    std::string source;
    std::string commit;
    std::string root;  ///< empty: there is none
  } cases[] = {
      {"https://h.example/o/n/resolve/main", commit, "https://h.example/o/n/resolve/" + commit},
      {"https://h.example/o/n/resolve/main/", commit, "https://h.example/o/n/resolve/" + commit},
      {"https://h.example/o/n/resolve/refs%2Fpr%2F1/sub/x.gguf", commit,
       "https://h.example/o/n/resolve/" + commit + "/sub"},
      {"https://h.example/n/resolve/a/resolve/b", commit,
       "https://h.example/n/resolve/" + commit + "/resolve/b"},
      {"https://h.example/o/n/resolve/main", std::string(64, 'f'),
       "https://h.example/o/n/resolve/" + std::string(64, 'f')},
      {"https://h.example/o/n/resolve/main", "0123abc", ""},
      {"https://h.example/o/n/resolve/main", std::string(40, 'F'), ""},
      {"https://h.example/o/n/resolve/main", "../" + std::string(37, '1'), ""},
      {"https://h.example/o/n/resolve", commit, ""},
      {"https://h.example/o/n/main", commit, ""},
      {"https://resolve/main", commit, ""},
      {"https://h.example", commit, ""},
      {"/o/n/resolve/main", commit, ""},
  };

  for (const auto& one : cases) {
    const auto address = SourceAddress::parse(one.source, PlainHttp::loopback_only);
    ASSERT_TRUE(address) << one.source;
    const auto at = address->at_commit(one.commit);
    ASSERT_EQ(at.has_value(), !one.root.empty()) << one.source;
    if (!at) continue;
    EXPECT_EQ(at->root, one.root);
    EXPECT_EQ(at->single_file, address->single_file);
  }
}

}  // namespace
}  // namespace tenzro::prepare
