package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// finder returns a Finder with a home folder that holds files, and these variables besides PATH.
func finder(t testing.TB, files map[string]string, env ...string) *Finder {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(home, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	return &Finder{Home: home, Env: append([]string{"PATH=" + path, "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}, env...)}
}

func TestNetrc(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, netrc, url string
		want             string // user:password, "" for none
	}{
		{"on one line", "machine a.example login me password pw", "https://a.example/x", "me:pw"},
		{"on many lines", "machine a.example\n\tlogin me\n\tpassword pw\n", "https://a.example/x", "me:pw"},
		{"the host is compared without case", "machine A.example login me password pw", "https://a.EXAMPLE", "me:pw"},
		{"another host", "machine b.example login me password pw", "https://a.example", ""},
		{"a host that ends like it", "machine example login me password pw", "https://a.example", ""},
		{"the port does not matter", "machine a.example login me password pw", "http://a.example:8080/x", "me:pw"},
		{"an entry for the port comes first", "machine a.example login x password x machine a.example:8080 login me password pw", "http://a.example:8080/", "me:pw"},
		{"default is for all others", "machine b.example login x password x\ndefault login me password pw", "https://a.example", "me:pw"},
		{"the first of two", "machine a.example login one password 1 machine a.example login two password 2", "https://a.example", "one:1"},
		{"the user in the URL chooses", "machine a.example login one password 1 machine a.example login two password 2", "https://two@a.example", "two:2"},
		{"another user in the URL", "machine a.example login one password 1", "https://two@a.example", ""},
		{"quotes", `machine a.example login "m e" password "p\"w\\"`, "https://a.example", `m e:p"w\`},
		{"a password that begins with #", "machine a.example login me password #pw", "https://a.example", "me:#pw"},
		{"comments", "# machine a.example login no password no\nmachine a.example login me password pw # mine", "https://a.example", "me:pw"},
		{"macros are skipped", "macdef init\nmachine a.example login no password no\n\nmachine a.example login me password pw", "https://a.example", "me:pw"},
		{"a macro at the end", "machine a.example login me password pw\nmacdef init\ncd /\n", "https://a.example", "me:pw"},
		{"account is read over", "machine a.example account x login me password pw", "https://a.example", "me:pw"},
		{"no password", "machine a.example login me", "https://a.example", ""},
		{"a byte order mark, and Windows line ends", "\ufeffmachine a.example\r\nlogin me\r\npassword pw\r\n", "https://a.example", "me:pw"},
		{"empty", "", "https://a.example", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			user, password, ok, err := finder(t, map[string]string{".netrc": tc.netrc}).HTTP(t.Context(), tc.url)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if ok {
				got = user + ":" + password
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNetrcIsWhereItsVariableSays(t *testing.T) {
	t.Parallel()
	f := finder(t, map[string]string{".netrc": "default login home password home", "other": "default login other password other"})
	f.Env = append(f.Env, "NETRC="+filepath.Join(f.Home, "other"))
	if user, _, ok, err := f.HTTP(t.Context(), "https://a.example"); err != nil || !ok || user != "other" {
		t.Errorf("got %q, %v, %v", user, ok, err)
	}
}

func TestABadNetrcNamesItsLineAndShowsNothingOfIt(t *testing.T) {
	t.Parallel()
	for name, netrc := range map[string]string{
		"an unknown word":           "machine a.example\nlogin me s3cr3t\n",
		"a word before a machine":   "\nlogin s3cr3t",
		"a quote that has no end":   "machine a.example\npassword \"s3cr3t\nlogin me",
		"a value that is not there": "machine a.example login s3cr3t\npassword",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, ok, err := finder(t, map[string]string{".netrc": netrc}).HTTP(t.Context(), "https://a.example")
			if err == nil || ok || !strings.Contains(err.Error(), ".netrc:2:") || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v, %v", ok, err)
			}
		})
	}
}

func FuzzNetrc(f *testing.F) {
	f.Add("machine a login b password c\ndefault login d password \"e f\"\nmacdef x\ny\n\n# z")
	f.Add("machine \"a\\")
	f.Add("macdef")
	f.Fuzz(func(t *testing.T, text string) {
		machines, line := parseNetrc(text)
		if line < 0 || line > strings.Count(text, "\n")+1 || line > 0 && machines != nil {
			t.Errorf("line %d with %d machines", line, len(machines))
		}
	})
}
