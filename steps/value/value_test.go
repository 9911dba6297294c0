package value_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/value"
)

func TestJSONComesBackAsItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"null", "true", "0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
		"0.5", "56.99", "12.34", "1e+21", "1e-07", "123456789.125", `""`, `"<&>"`, `"é☃"`, "[]", "{}", `{"color":"yellow","number":3}`,
		`[1,[2,{"a":null}]]`,
	} {
		v, err := value.ParseJSON([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := string(v.AppendJSON(nil)); got != text {
			t.Errorf("%s comes back as %s", text, got)
		}
	}
}

func TestBadJSONIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "1 2", "nope", "\"\xff\"", "1e999", strings.Repeat("[", 300) + strings.Repeat("]", 300)} {
		if v, err := value.ParseJSON([]byte(text)); err == nil {
			t.Errorf("%.20q is accepted as %s", text, v.Text())
		}
	}
}

func TestValuesOfDifferentKindsHaveAnOrder(t *testing.T) {
	t.Parallel()
	sorted := []string{"null", "false", "true", "-2", "1.5", "9007199254740992", "9007199254740993", `"a"`, `"b"`, "[]", "[1,2]", "[1,2,3]", "[2]", "{}", `{"a":1}`, `{"a":2}`, `{"b":0}`, `{"a":0,"b":0}`}
	for i, a := range sorted {
		for j, b := range sorted {
			va, _ := value.ParseJSON([]byte(a))
			vb, _ := value.ParseJSON([]byte(b))
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := value.Compare(va, vb); got != want {
				t.Errorf("Compare(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestAMarkForTheSecretsInATextFindsNothingElse(t *testing.T) {
	text := value.OfString("user:pw@host").MarkFor([]string{"pw"})
	for name, c := range map[string]struct {
		v    value.Value
		want string
	}{
		"as it is":              {text, "pw"},
		"in a list":             {value.OfArray([]value.Value{text, value.OfString("x")}), "pw"},
		"unmarked stays so":     {text.Mark(false), "pw"},
		"marked as a whole":     {text.Mark(true), "user:pw@host"},
		"was marked as a whole": {value.OfString("a").Mark(true).MarkFor([]string{"pw"}), "a"},
		"in a list that is":     {value.OfArray([]value.Value{text}).Mark(true), `user:pw@host ["user:pw@host"]`},
		"for none":              {value.OfString("a").MarkFor(nil), ""},
	} {
		var found []string
		c.v.Secrets(func(text string) { found = append(found, text) })
		if got := strings.Join(found, " "); got != c.want || c.v.Sensitive() != (c.want != "") {
			t.Errorf("%s: %q, want %q; sensitive is %t", name, got, c.want, c.v.Sensitive())
		}
	}
}

func TestMarksAreFoundInside(t *testing.T) {
	t.Parallel()
	secret := value.OfString("hunter2").Mark(true)
	v := value.OfStruct(map[string]value.Value{"a": value.OfArray([]value.Value{value.OfInt(1), secret})})
	if !v.Sensitive() || v.Marked() {
		t.Errorf("Sensitive %t, Marked %t; want a mark inside only", v.Sensitive(), v.Marked())
	}
	var found []string
	v.Secrets(func(text string) { found = append(found, text) })
	if len(found) != 1 || found[0] != "hunter2" {
		t.Errorf("the secrets are %q", found)
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{"1", `{"a":[1,2.5e3,"x"]}`, "18446744073709551616", "-0"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.ParseJSON(data)
		if err != nil {
			return
		}
		again, err := value.ParseJSON(v.AppendJSON(nil))
		if err != nil || !value.Equal(v, again) {
			t.Fatalf("%q is written as %q, which reads as something else (%v)", data, v.AppendJSON(nil), err)
		}
	})
}

func TestAnErrorShowsNoPartOfASecret(t *testing.T) {
	masktest.Shortens(t, 40, func(text string) string {
		_, err := value.ParseNumber(text)
		return err.Error()
	})
}
