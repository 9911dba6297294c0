package source

import (
	"strings"
	"unicode"

	"github.com/rungci/rung/internal/mask"
)

// WithoutUserinfo returns a URL without the credentials that may be in it. The user of an SSH URL stays: it is part of the place.
func WithoutUserinfo(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	n := userinfo(rest)
	if n == 0 {
		return url
	}
	if s := strings.ToLower(scheme); s == "ssh" || s == "git+ssh" || s == "ssh+git" {
		user, _, _ := strings.Cut(rest[:n-1], ":")
		return scheme + "://" + user + "@" + rest[n:]
	}
	return scheme + "://" + rest[n:]
}

// minToken is the length from which a user without a password is taken for a token: to mask "git" in every log helps nobody.
const minToken = 16

// Password returns what of a URL must not be shown wherever it stands: its password or, where it has a user only that looks like a
// token, that; "" when there is none.
func Password(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	n := userinfo(rest)
	if !ok || n == 0 {
		return ""
	}
	user, password, hasPassword := strings.Cut(rest[:n-1], ":")
	if !hasPassword && len(user) >= minToken && !strings.Contains(strings.ToLower(scheme), "ssh") {
		return user
	}
	return password
}

// Passwords returns what must not be shown of the URLs in a text.
func Passwords(text string) (secrets []string) {
	if !strings.Contains(text, "@") {
		return nil
	}
	for word := range strings.FieldsFuncSeq(text, separates) {
		if secret := Password(word); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// userinfo returns how many bytes at the beginning of what follows "://" are a user and a password, with the @ behind them. Who
// forgot to escape a slash in a password wrote no URL, but a password all the same.
func userinfo(rest string) int {
	host, _, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		return i + 1
	}
	_, port, ok := strings.Cut(host, ":")
	if !ok || strings.HasPrefix(host, "[") || strings.Trim(port, "0123456789") == "" {
		return 0
	}
	return strings.IndexByte(rest, '@') + 1
}

// MaskUserinfo returns a text for people in which the credentials of URLs, and the values in their queries, are masked: a reference that
// cannot be read or followed is shown as it was written, but for those.
func MaskUserinfo(text string) string {
	text = mask.Queries(text)
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	for text != "" {
		n := strings.IndexFunc(text, separates)
		if n < 0 {
			n = len(text)
		}
		b.WriteString(maskWord(text[:n]))
		text = text[n:]
		if n = strings.IndexFunc(text, func(r rune) bool { return !separates(r) }); n < 0 {
			n = len(text)
		}
		b.WriteString(text[:n])
		text = text[n:]
	}
	return b.String()
}

// separates reports whether a character ends a URL in a text.
func separates(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`<>(){},", r) }

// masked stands for what is not shown, as in logs.
const masked = "[MASKED]"

// namesVersion reports whether an @ in what is not a URL is followed by a version or a digest, not by the host of a password: in the text
// of an action, in image:tag@sha256:…, and in host.example:group/project@v1. A password may have slashes, too: where both are possible, it is one.
func namesVersion(before, after string) bool {
	name, rest, _ := strings.Cut(before, ":")
	switch {
	case strings.HasPrefix(after, "sha256:"):
		return true
	case name == "action":
		return !strings.Contains(rest, ":")
	}
	return strings.Contains(name, ".") && strings.Contains(rest, "/") && !strings.ContainsAny(after, "/:") && !isHost(after)
}

// isHost reports whether a text looks like the name of a host with a domain: v1.2 does not.
func isHost(text string) bool {
	dot := strings.LastIndexByte(text, '.')
	return dot > 0 && len(text)-dot > 2 && strings.IndexFunc(text[dot+1:], func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

func maskWord(word string) string {
	scheme, rest, ok := strings.Cut(word, "://")
	if ok {
		scheme += "://"
	} else {
		scheme, rest = "", word
	}
	n := userinfo(rest)
	if n == 0 || scheme == "" && namesVersion(rest[:n-1], rest[n:]) {
		return word
	}
	user, _, hasPassword := strings.Cut(rest[:n-1], ":")
	if !hasPassword && (scheme == "" || strings.Contains(strings.ToLower(scheme), "ssh")) {
		return word // host/project@revision, and who logs in over SSH
	}
	if !hasPassword {
		user = masked
	} else {
		user += ":" + masked
	}
	return scheme + user + "@" + rest[n:]
}
