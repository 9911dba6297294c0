package mask

import "github.com/rungci/rung/internal/lazyregexp"

var (
	urlWithQuery = lazyregexp.New("://[^\\s\"'`<>?]*\\?[^\\s\"'`<>]*")
	// queryValue is a value of MinLength or more that is neither a variable or expression, nor masked already. What ends a sentence is not part of it.
	queryValue = lazyregexp.New(`([?&;][^=&;#]*=)[^&;#(),{}$\[][^&;#(),{}]{2,}[^&;#(),{}:.]`)
)

// Queries masks the values in queries of URLs in a text for people: they are where addresses for downloads hold tokens.
func Queries(text string) string {
	return urlWithQuery().ReplaceAllStringFunc(text, func(url string) string {
		return queryValue().ReplaceAllString(url, "${1}"+Replacement)
	})
}
