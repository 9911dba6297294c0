package mask

import "testing"

func TestQueries(t *testing.T) {
	for text, want := range map[string]string{
		"cannot fetch https://host/x.tgz?token=hunter2q: refused":         "cannot fetch https://host/x.tgz?token=[MASKED]: refused",
		`{url: "https://host/x.tgz?a=12345&token=hunter2q&b"}`:            `{url: "https://host/x.tgz?a=[MASKED]&token=[MASKED]&b"}`,
		"{url: https://host/x.tgz?token=hunter2q#part, sha256: abcdef}":   "{url: https://host/x.tgz?token=[MASKED]#part, sha256: abcdef}",
		"see https://host/x?token=hunter2q.":                              "see https://host/x?token=[MASKED].",
		"https://host/x?token=[MASKED]&page=2":                            "https://host/x?token=[MASKED]&page=2",
		"https://host/x?token=${{ inputs.token }} and https://h?t=$TOKEN": "https://host/x?token=${{ inputs.token }} and https://h?t=$TOKEN",
		"is it https://host/x ? token=hunter2q is not in an address":      "is it https://host/x ? token=hunter2q is not in an address",
	} {
		if got := Queries(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if again := Queries(want); again != want {
			t.Errorf("again: %s", again)
		}
	}
}
