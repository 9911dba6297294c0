package expr_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

func TestSensitivity(t *testing.T) {
	t.Run("C69 what is computed from a sensitive value is sensitive", func(t *testing.T) {
		for _, text := range []string{
			`job.token`, `job["token"]`, `"x" + job.token`, `job.token + "x"`, `"a" + job.token + "b"`, `"x ${{ job.token }}"`, `"${{ "${{ job.token }}" }}"`,
			`str(job.token)`, `bool(job.token)`, `!job.token`, `first(job.token)`, `job.token == "a"`, `"a" != job.token`, `job.token < "b"`, `job.token >= 1`,
			`job.token && "yes"`, `job.token || "no"`, `!job.token || "no"`, `!job.token && "no"`, `job.token == "x" && "yes" || "no"`, `job.token != "x" && "yes" || "no"`,
			`[job.token]`, `[1, [job.token]]`, `{a: {b: job.token}}`, `[job.token][0]`, `{a: job.token}.a`, `{(job.token): 1}`, `{(job.token): 1, a: 2}.a`,
			`str([1, [job.token]])`, `str({a: {b: job.token}})`, `"${{ {a: [job.token]} }}"`, `str(inputs.list)`, `str(inputs)`, `"${{ inputs.login }}"`,
			`inputs.list`, `inputs.list[1]`, `inputs.login.password`, `inputs.list == [1]`, `inputs.login == null`, `[inputs.list] < [1]`, `first(str(inputs.list))`,
			`vault`, `vault.key`, `vault.sub`, `vault.sub.a[0]`, `vault.sub.a[0] + 1`, `-vault.sub.a[0]`, `+vault.sub.a[0]`, `1 - vault.sub.a[0]`, `1 / vault.sub.a[0]`,
			`vault && 1`, `!vault`, `bool(vault)`, `[10, 20][vault.sub.a[0]]`, `{k3y: 1}[vault.key]`, `deep.x.y[vault.sub.a[0] - 1].z`, `num(str(vault.sub.a[0]))`,
		} {
			v, err := eval(t, text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if !v.Sensitive() {
				t.Errorf("%s = %s is not sensitive", text, v.Text())
			}
		}
	})
	t.Run("C69 what is not computed from a sensitive value is not", func(t *testing.T) {
		for _, text := range []string{
			`job.id`, `inputs.list[0]`, `inputs.login.user`, `{a: job.token, b: 1}.b`, `[job.token, 1][1]`, `"a" || job.token`, `0 && job.token`,
			`inputs.login && "yes"`, `bool(inputs.list)`, `!inputs.list`, `str(inputs.login.user)`, `{a: 1}`, `[1, 2]`, `inputs.foods == ["x"]`,
		} {
			v, err := eval(t, text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if v.Sensitive() {
				t.Errorf("%s is sensitive", text)
			}
		}
	})
	t.Run("C69 templates and expansion keep the mark", func(t *testing.T) {
		for text, want := range map[string]bool{
			"${{ job.token }}": true, "x${{ job.token }}": true, "${{ job.id }}${{ job.token }}": true, "${{ job.token }}\n": true, "${{ inputs.list }}!": true,
			"${{ inputs.list }}": true, "${{ job.id }}": false, "${{ inputs.list[0] }}!": false,
		} {
			v, err := evalTemplate(t, text)
			if err != nil || v.Sensitive() != want {
				t.Errorf("%s: sensitive is %v, %v; want %v", text, v.Sensitive(), err, want)
			}
		}
		for text, want := range map[string]string{ // what is around a secret is none, unless that is too short to be masked
			"user:${{ job.token }}@host": "s3cret", "${{ \"user:\" + job.token }}": "s3cret", "${{ first(\"user:\" + job.token) }}": "user:s3cret", "${{ bool(job.token) }}!": "true!",
		} {
			v, err := evalTemplate(t, text)
			var found []string
			v.Secrets(func(text string) { found = append(found, text) })
			if got := strings.Join(found, " "); err != nil || got != want {
				t.Errorf("%s: %q is to be masked, want %q, %v", text, got, want, err)
			}
		}
		in := value.OfArray([]value.Value{
			value.OfString("${{ a }}").Mark(true),
			value.OfStruct(map[string]value.Value{"${{ job.token }}": value.OfInt(1)}),
			value.OfStruct(map[string]value.Value{"x": value.OfString("${{ a }}")}).Mark(true),
			value.OfArray(nil).Mark(true),
			value.OfString("${{ a }}"),
		})
		out, err := expr.Expand(in, testScope(t))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, true, true, false} {
			if got := out.Items()[i].Marked(); got != want {
				t.Errorf("item %d is marked %v, want %v", i, got, want)
			}
		}
	})
	t.Run("no error shows a sensitive value, nor the names in a sensitive struct", func(t *testing.T) {
		for _, text := range []string{
			`num(job.token)`, `deep[job.token]`, `deep.x[vault.key].z`, `vault.nope`, `vault.sub.nope`, `vault.sub.a[7]`, `vault.sub.a["x"]`, `job.token.x`, `job.token[0]`,
			`{(job.token): 1, (job.token): 2}`, `inputs.foods[vault.sub.a[0] + 41]`, `inputs.foods[vault.sub.a[0] / 42]`, `job.token + 1`, `-job.token`, `1 / (vault.sub.a[0] - 1)`,
		} {
			_, err := eval(t, text)
			e := wantError(t, text, err, messageOf(err))
			for _, secret := range []string{"s3cret", "k3y", "0.02", "42 is", `"sub"`, `"key"`, `"a"`, "1 item"} {
				if strings.Contains(e.Message+e.Hint, secret) {
					t.Errorf("%s: the error shows %s: %s", text, secret, e.Message)
				}
			}
		}
	})
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAttributeCostsThePathOnly(t *testing.T) {
	items := make([]value.Value, 100_000)
	for i := range items {
		items[i] = value.OfString("x")
	}
	s := expr.Values{"steps": value.OfStruct(map[string]value.Value{
		"a": value.OfStruct(map[string]value.Value{"outputs": value.OfStruct(map[string]value.Value{"x": value.OfInt(1), "huge": value.OfArray(items)})}),
	})}
	e, err := expr.Parse("steps.a.outputs.x")
	if err != nil {
		t.Fatal(err)
	}
	small := expr.Values{"steps": fromJSON(t, `{"a": {"outputs": {"x": 1}}}`)}
	eval := func(s expr.Scope) func() {
		return func() {
			if _, err := e.Eval(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if huge, little := testing.AllocsPerRun(10, eval(s)), testing.AllocsPerRun(10, eval(small)); huge != little {
		t.Errorf("%v allocations beside a huge value, %v without", huge, little)
	}
	// Time is not asserted, but a walk of the whole value for each of these would take minutes.
	for range 200_000 {
		eval(s)()
	}
}

func TestAnErrorShowsNoPartOfASecretThatNobodyCalledSensitive(t *testing.T) {
	for _, text := range []string{"num(text)", "({a: 1})[text]"} {
		masktest.Shortens(t, 60, func(given string) string {
			e, err := expr.Parse(text)
			if err == nil {
				_, err = e.Eval(scope{expr.Values{"text": value.OfString(given)}})
			}
			return err.Error()
		})
	}
}
