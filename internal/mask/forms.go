package mask

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// forms returns the forms in which programs print a secret, itself first. Many are equal for a simple secret.
func forms(secret string) []string {
	all := quotedForms(secret)
	all = append(all, base64Forms(secret)...)
	all = append(all, jsonInJSON(secret)...)
	all = append(all, wideForms(secret)...)
	return append(all, hexForms(secret)...)
}

// hexSeparators stand between the bytes that programs print in hexadecimal; with % they are a URL in which every byte is encoded, with \x
// a literal of shells and languages.
var hexSeparators = []string{"", ":", " ", "-", "%", `\x`}

// hexForms returns the bytes of the secret in hexadecimal, with small and capital digits.
func hexForms(secret string) []string {
	all := make([]string, 0, 2*len(hexSeparators))
	lower := hex.EncodeToString([]byte(secret))
	for _, digits := range []string{lower, strings.ToUpper(lower)} {
		for _, separator := range hexSeparators {
			var b strings.Builder
			for i := 0; i < len(digits); i += 2 {
				if i > 0 {
					b.WriteString(separator)
				}
				b.WriteString(digits[i : i+2])
			}
			all = append(all, b.String())
		}
	}
	return all
}

// wideForms returns the secret in UTF-16, which programs write on Windows: PowerShell 5 into files. The zero at the end of one byte order, and at the
// beginning of the other, is left out: a secret in ASCII is the same in both then.
func wideForms(secret string) []string {
	var little, big []byte
	for _, unit := range utf16.Encode([]rune(secret)) {
		little = binary.LittleEndian.AppendUint16(little, unit)
		big = binary.BigEndian.AppendUint16(big, unit)
	}
	return []string{strings.TrimSuffix(string(little), "\x00"), strings.TrimPrefix(string(big), "\x00")}
}

// jsonInJSON returns the secret as it appears in a JSON string that is in another one, as a log of messages has them.
func jsonInJSON(secret string) []string {
	all := make([]string, 0, len(jsonStyles))
	for _, style := range jsonStyles {
		all = append(all, style.encode(style.encode(secret)))
	}
	return all
}

// quotedForms returns the forms that leave most letters as they are.
func quotedForms(secret string) []string {
	all := []string{secret}
	all = append(all, jsonForms(secret)...)
	all = append(all, urlForms(secret)...)
	all = append(all, shellForms(secret)...)
	all = append(all, markupForms(secret)...)
	return append(all, pieces(secret)...)
}

// base64Forms returns the middle of the base64 encodings, in both alphabets, of a text that contains the secret. There are
// three, for the position of the secret modulo three. Characters that hold bits of a neighbour are left out.
func base64Forms(secret string) []string {
	var all []string
	for shift := range 3 {
		padded := append(make([]byte, shift, shift+len(secret)), secret...)
		const bitsPerByte, bitsPerChar = 8, 6
		from := (shift*bitsPerByte + bitsPerChar - 1) / bitsPerChar
		to := len(padded) * bitsPerByte / bitsPerChar
		all = append(all,
			base64.RawStdEncoding.EncodeToString(padded)[from:to],
			base64.RawURLEncoding.EncodeToString(padded)[from:to])
	}
	return all
}

// The characters that percent-encoders leave alone, besides letters and digits. Letters name the encoder.
const (
	safeRFC3986   = "-_.~"                        // Go's QueryEscape, RFC 3986
	safeComponent = safeRFC3986 + "!'()*"         // JavaScript's encodeURIComponent
	safeURI       = safeComponent + ";,/?:@&=+$#" // JavaScript's encodeURI
	safePath      = safeRFC3986 + "$&+=:@"        // Go's PathEscape
	safeUserinfo  = safeRFC3986 + "$&+,;="        // Go's url.Userinfo
	safePython    = safeRFC3986 + "/"             // Python's quote
	safeForm      = "-_.*"                        // HTML forms, Java's URLEncoder
)

// urlForms returns the secret as it appears in URLs and in HTML forms.
func urlForms(secret string) []string {
	var all []string
	for _, digits := range []string{"0123456789ABCDEF", "0123456789abcdef"} {
		for _, safe := range []string{safeRFC3986, safeComponent, safeURI, safePath, safeUserinfo, safePython} {
			all = append(all, percentEncode(secret, safe, "%20", digits))
		}
		for _, safe := range []string{safeRFC3986, safePython, safeForm} {
			all = append(all, percentEncode(secret, safe, "+", digits))
		}
	}
	return append(all, urlInURL(secret)...)
}

// urlInURL returns the secret as it appears in a URL that is a parameter of another one, where both are encoded by the same common encoder.
func urlInURL(secret string) []string {
	const digits = "0123456789ABCDEF"
	var all []string
	for _, safe := range []string{safeRFC3986, safeComponent} {
		all = append(all, percentEncode(percentEncode(secret, safe, "%20", digits), safe, "", digits))
	}
	return append(all, percentEncode(percentEncode(secret, safeRFC3986, "+", digits), safeRFC3986, "", digits))
}

// percentEncode encodes all bytes but ASCII letters, digits and the safe ones, as %XX with the given digits.
func percentEncode(secret, safe, blank, digits string) string {
	var b strings.Builder
	for _, c := range []byte(secret) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteString(blank)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// jsonStyle tells how a program writes JSON strings. Quotes, backslashes and control characters are always escaped.
type jsonStyle struct {
	escaped string // ASCII characters written as \uXXXX
	slash   bool   // / is written as \/
	ascii   bool   // so are all characters that are not ASCII, as UTF-16
	upper   bool   // with capital digits
}

// jsonStyles are the styles of common encoders.
var jsonStyles = []jsonStyle{
	{},                               // JavaScript, Go without HTML escapes, Rust
	{escaped: "<>&"},                 // Go
	{slash: true},                    // PHP with unescaped Unicode, Objective-C
	{ascii: true},                    // Python
	{ascii: true, slash: true},       // PHP
	{escaped: "<>&'=", upper: false}, // Gson
	{escaped: "<>&'", ascii: true},   // Rails and other HTML-safe encoders
	{escaped: "\"<>&'+`", ascii: true, upper: true}, // .NET
}

// jsonForms returns the secret as it appears inside JSON strings and the string literals of programming languages.
func jsonForms(secret string) []string {
	all := make([]string, 0, len(jsonStyles)+2)
	for _, style := range jsonStyles {
		all = append(all, style.encode(secret))
	}
	for _, quoted := range []string{strconv.Quote(secret), strconv.QuoteToASCII(secret)} {
		all = append(all, quoted[1:len(quoted)-1])
	}
	return all
}

// jsonShort holds the short escapes; 0 means that there is none.
var jsonShort = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f'}

// encode returns the inside of the JSON string for the secret. Bytes that are not UTF-8 become U+FFFD as in Go.
func (j jsonStyle) encode(secret string) string {
	var b strings.Builder
	for i, r := range secret {
		_, size := utf8.DecodeRuneInString(secret[i:])
		switch {
		case r < utf8.RuneSelf && strings.IndexByte(j.escaped, byte(r)) >= 0:
			j.writeEscape(&b, uint16(r))
		case r < utf8.RuneSelf && jsonShort[r] != 0:
			b.WriteByte('\\')
			b.WriteByte(jsonShort[r])
		case r == '/' && j.slash:
			b.WriteString(`\/`)
		case r < ' ', r == 0x7f && j.ascii, r == utf8.RuneError && size == 1, (r == 0x2028 || r == 0x2029) && j.escaped != "":
			j.writeEscape(&b, uint16(r))
		case r >= utf8.RuneSelf && j.ascii:
			for _, unit := range utf16.AppendRune(nil, r) {
				j.writeEscape(&b, unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (j jsonStyle) writeEscape(b *strings.Builder, unit uint16) {
	const four = 0x10000 // a leading 1 keeps the zeros
	digits := strconv.FormatUint(four|uint64(unit), 16)[1:]
	if j.upper {
		digits = strings.ToUpper(digits)
	}
	b.WriteString(`\u` + digits)
}

// shellForms returns the secret as it appears in the trace of a shell (set -x) and inside quotes. The quotes around it are
// left out, since what a shell quotes may be longer than the secret.
func shellForms(secret string) []string {
	return []string{
		strings.ReplaceAll(secret, `'`, `'\''`),        // bash, zsh
		strings.ReplaceAll(secret, `'`, `'"'"'`),       // dash, busybox
		strings.ReplaceAll(secret, `'`, `\'`),          // Python, PHP
		strings.ReplaceAll(secret, `'`, `''`),          // PowerShell, SQL, YAML
		strings.ReplaceAll(secret, `"`, `""`),          // CSV
		strings.ReplaceAll(secret, `"`, `\"`),          // command lines on Windows
		backslash(secret, "\\\"$`"),                    // bash: declare -p, and double quotes in scripts
		backslash(secret, " !\"#$&'()*,;<>?[\\]^`{|}"), // bash: printf %q
		backslash(secret, ""),                          // bash: the trace of [[ x == "$y" ]]
		ansiC(secret, `\E`, false),                     // bash: $'…' in a UTF-8 locale
		ansiC(secret, `\E`, true),                      // bash: $'…' in the C locale
		ansiC(secret, `\e`, false),                     // ksh, mksh
	}
}

// backslash puts a backslash before the given characters, or before all if none are given.
func backslash(secret, before string) string {
	var b strings.Builder
	for i, r := range secret {
		if before == "" || r < utf8.RuneSelf && strings.IndexByte(before, byte(r)) >= 0 {
			b.WriteByte('\\')
		}
		_, size := utf8.DecodeRuneInString(secret[i:])
		b.WriteString(secret[i : i+size])
	}
	return b.String()
}

// ansiShort holds the short escapes of $'…'; ESC is not among them because shells differ.
var ansiShort = [utf8.RuneSelf]byte{
	'\\': '\\', '\'': '\'', '\a': 'a', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v',
}

// ansiC returns the inside of $'…', with other control characters and, if octal is set, all bytes beyond ASCII in octal.
func ansiC(secret, escape string, octal bool) string {
	var b strings.Builder
	for i, r := range secret {
		_, size := utf8.DecodeRuneInString(secret[i:])
		switch {
		case r == esc:
			b.WriteString(escape)
		case r < utf8.RuneSelf && ansiShort[r] != 0:
			b.WriteByte('\\')
			b.WriteByte(ansiShort[r])
		case r < ' ', r == 0x7f, r == utf8.RuneError && size == 1, r >= utf8.RuneSelf && octal:
			for _, c := range []byte(secret[i : i+size]) {
				b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
			}
		default:
			b.WriteString(secret[i : i+size])
		}
	}
	return b.String()
}

// markupForms returns the secret as it appears in HTML and XML.
func markupForms(secret string) []string {
	named := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
	return []string{
		named.Replace(secret),
		strings.ReplaceAll(named.Replace(secret), "'", "&apos;"),
		strings.ReplaceAll(named.Replace(secret), "'", "&#39;"),
		strings.ReplaceAll(named.Replace(secret), "'", "&#x27;"),
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(secret),
		html.EscapeString(secret),
	}
}

// minPiece is the length in bytes from which a piece of a secret is masked: shorter ones are words of any text.
const minPiece = 6

// pieces returns what is printed of some secrets in place of all: of one in double quotes the inside, and of one with & what stands
// before and after it, where PowerShell changes the colour when it shows a command with a mistake. It colours the last &, or the &+ and
// the letter after it. Source: the encoders of actions/runner.
func pieces(secret string) []string {
	var all []string
	if n := len(secret); n > 2+minPiece && secret[0] == '"' && secret[n-1] == '"' {
		all = append(all, secret[1:n-1])
	}
	before := strings.LastIndexByte(secret, '&') + 1
	if before == 0 {
		return all
	}
	after := before
	if i := strings.Index(secret, "&+"); i >= 0 {
		before = i + len("&+")
		after = min(before+1, len(secret))
	}
	for _, piece := range []string{secret[:before], secret[after:]} {
		if len(piece) >= minPiece {
			all = append(all, piece)
		}
	}
	return all
}
