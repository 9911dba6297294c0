package program_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

func call(t *testing.T) (*program.Call, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	var out bytes.Buffer
	c := &program.Call{
		WorkDir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "A=1", "A=2"}, Stdout: &out, Stderr: &out,
		OutputFile: filepath.Join(dir, "out"), ExportFile: filepath.Join(dir, "export"),
	}
	for _, file := range []string{c.OutputFile, c.ExportFile} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c, &out
}

func TestInputsAreDecodedStrictly(t *testing.T) {
	t.Parallel()
	c, _ := call(t)
	var in struct {
		Name string `json:"name"`
	}
	c.Inputs = []byte(`{"name":"a"}`)
	if err := c.Decode(&in); err != nil || in.Name != "a" {
		t.Errorf("decoded %+v, %v", in, err)
	}
	c.Inputs = []byte(`{"name":"a","more":1}`)
	if err := c.Decode(&in); err == nil {
		t.Error("an input that the code does not know is accepted")
	}
}

func TestResultsAreLinesOfJSON(t *testing.T) {
	t.Parallel()
	c, _ := call(t)
	for _, err := range []error{c.Output("n", value.OfInt(3)), c.Output("s", value.OfString("a\nb")), c.Export("VAR", "text")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(c.OutputFile)
	if want := "{\"name\":\"n\",\"value\":3}\n{\"name\":\"s\",\"value\":\"a\\nb\"}\n"; string(got) != want {
		t.Errorf("outputs are %q", got)
	}
	if got, _ = os.ReadFile(c.ExportFile); string(got) != "{\"name\":\"VAR\",\"value\":\"text\"}\n" {
		t.Errorf("exports are %q", got)
	}
	c.OutputFile = ""
	if err := c.Output("n", value.OfInt(3)); err == nil {
		t.Error("an output without a file is accepted")
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	t.Run("get the environment of the call, and more over it", func(t *testing.T) {
		t.Parallel()
		c, _ := call(t)
		got, err := c.Read(t.Context(), "", []string{"B=3", "A=4"}, "env")
		if err != nil {
			t.Skipf("needs env: %v", err)
		}
		lines := strings.Split(strings.TrimSpace(got), "\n")
		if !slices.Contains(lines, "A=4") || !slices.Contains(lines, "B=3") || len(lines) != 3 {
			t.Errorf("the environment is %q", lines)
		}
		if c.Getenv("A") != "2" || c.Getenv("NO") != "" {
			t.Errorf("A is %q", c.Getenv("A"))
		}
	})
	t.Run("write to the log, in the folder that is asked for", func(t *testing.T) {
		t.Parallel()
		c, out := call(t)
		sub := filepath.Join(c.WorkDir, "sub")
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context(), sub, nil, "pwd"); err != nil {
			t.Skipf("needs pwd: %v", err)
		}
		if !strings.HasSuffix(strings.TrimSpace(out.String()), "sub") {
			t.Errorf("it ran in %q", out)
		}
	})
	t.Run("that fail say how", func(t *testing.T) {
		t.Parallel()
		c, _ := call(t)
		err := c.Run(t.Context(), "", nil, "sh", "-c", "exit 7")
		var exit *program.ExitError
		if !errors.As(err, &exit) || exit.Code != 7 || exit.Error() != "sh failed with exit code 7" {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("that are not there say so", func(t *testing.T) {
		t.Parallel()
		c, _ := call(t)
		if err := c.Run(t.Context(), "", nil, "no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
			t.Errorf("the error is %v", err)
		}
	})
}
