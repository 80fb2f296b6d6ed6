# Writes a C++ source that defines a text file's content as a string.
# cmake -DINPUT=file -DOUTPUT=file.cpp -DNAMESPACE=a::b -DSYMBOL=kName -P EmbedText.cmake
file(READ ${INPUT} text)
string(FIND "${text}" ")text_end\"" clash)
if(NOT clash EQUAL -1)
  message(FATAL_ERROR "${INPUT} holds the delimiter of the raw string it is embedded in")
endif()
file(WRITE ${OUTPUT} "// Made from a text file by cmake/EmbedText.cmake.
#include <string_view>

namespace ${NAMESPACE} {
extern const std::string_view ${SYMBOL};
constexpr std::string_view ${SYMBOL} = R\"text_end(${text})text_end\";
}  // namespace ${NAMESPACE}
")
