package e2e

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestTheExistingStepRunnersCases runs the integration cases of GitLab's step-runner. Nothing of it is built: the cases are read from
// their sources, the steps run as they are, and what a case demands of the result is held against the StepResult that is written here.
func TestTheExistingStepRunnersCases(t *testing.T) {
	folder := filepath.Join(checkout(t, stepRunnerDir), "integration_test")
	for _, program := range []string{"go", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	bin := filepath.Join(build(t), "step-runner")
	different, names := readDifferences(t, "step-runner"), map[string]bool{}
	work := t.TempDir() // steps may write beside themselves
	if err := os.CopyFS(work, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, c := range stepRunnerCases(t, folder) {
		names[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			problem := c.run(t, bin, work)
			if problem == "" {
				passed++
			}
			different.judge(t, c.name, problem)
		})
	}
	different.seen(t, names)
	t.Logf("%d of %d cases end as with the existing step-runner", passed, len(names))
}

// stepRunnerCase is a test, or a part of one, and what it does.
type stepRunnerCase struct {
	name string
	body *ast.BlockStmt
}

// stepRunnerCases reads the cases: functions that call testutil.StepRunner, and within them each t.Run.
func stepRunnerCases(t *testing.T, folder string) (cases []stepRunnerCase) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", folder, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			before := len(cases)
			for _, s := range f.Body.List {
				if call := callOf(s, "t", "Run"); call != nil {
					part, _ := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
					cases = append(cases, stepRunnerCase{f.Name.Name + "/" + part, call.Args[1].(*ast.FuncLit).Body})
				}
			}
			if len(cases) == before {
				cases = append(cases, stepRunnerCase{f.Name.Name, f.Body})
			}
		}
	}
	return cases
}

// callOf returns the call of a function of a package or a variable that a statement is.
func callOf(s ast.Stmt, of, name string) *ast.CallExpr {
	if e, ok := s.(*ast.ExprStmt); ok {
		if call, ok := e.X.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && (name == "" || f.Sel.Name == name) {
				if x, ok := f.X.(*ast.Ident); ok && x.Name == of {
					return call
				}
			}
		}
	}
	return nil
}

// reading is a case while it is carried out: its variables, and the program that runs its steps.
type reading struct {
	t         *testing.T
	bin, work string
	vars      map[string]any
}

// unreadable is panicked with by what this reader of cases does not know.
type unreadable string

func (c stepRunnerCase) run(t *testing.T, bin, work string) (problem string) {
	r := &reading{t: t, bin: bin, work: work, vars: map[string]any{"nil": nil, "true": true, "false": false}}
	defer func() {
		if what := recover(); what != nil {
			why, ok := what.(unreadable)
			if !ok {
				panic(what)
			}
			problem = "the case needs more than a run of steps: " + string(why)
		}
	}()
	for _, s := range c.body.List {
		if a, ok := s.(*ast.AssignStmt); ok && len(a.Rhs) == 1 {
			for i, v := range r.values(a.Rhs[0], len(a.Lhs)) {
				if id, ok := a.Lhs[i].(*ast.Ident); ok {
					r.vars[id.Name] = v
				}
			}
			continue
		}
		call := callOf(s, "require", "")
		if call == nil {
			panic(unreadable(fmt.Sprintf("a statement that is a %T", s)))
		}
		if problem := r.require(call); problem != "" {
			return problem
		}
	}
	return ""
}

// values evaluates the right side of an assignment.
func (r *reading) values(e ast.Expr, n int) []any {
	call, ok := e.(*ast.CallExpr)
	if !ok || n == 1 {
		return []any{r.value(e)}
	}
	f, _ := call.Fun.(*ast.SelectorExpr)
	switch {
	case f != nil && f.Sel.Name == "Abs":
		return []any{filepath.Join(r.work, fmt.Sprint(r.value(call.Args[0]))), nil}
	case f != nil && f.Sel.Name == "Run" && n == 3:
		return r.runSteps(f.X, fmt.Sprint(r.value(call.Args[0])))
	}
	panic(unreadable(fmt.Sprintf("a call with %d results", n)))
}

// runSteps runs a definition as the case's builder says, and returns its result, its output and its error.
func (r *reading) runSteps(builder ast.Expr, definition string) []any {
	result := filepath.Join(r.t.TempDir(), "result.json")
	args := []string{"run", "-", "--host-home", "--env-policy", "inherit", "--step-results-file", result}
	for call, ok := builder.(*ast.CallExpr); ok; call, ok = builder.(*ast.CallExpr) {
		f := call.Fun.(*ast.SelectorExpr)
		switch f.Sel.Name {
		case "WithEnvKeyVal":
			args = append(args, "--env", fmt.Sprintf("%v=%v", r.value(call.Args[0]), r.value(call.Args[1])))
		case "StepRunner":
		default:
			panic(unreadable("testutil's " + f.Sel.Name))
		}
		builder = f.X
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} { // a step has a home of its own: what it compiles is kept where ours is
		text, err := exec.Command("go", "env", name).Output()
		if err != nil {
			r.t.Fatal(err)
		}
		args = append(args, "--env", name+"="+strings.TrimSpace(string(text)))
	}
	cmd := exec.Command(r.bin, args...)
	cmd.Dir, cmd.Stdin = r.work, strings.NewReader(definition)
	out, err := cmd.CombinedOutput()
	var decoded any
	if text, rerr := os.ReadFile(result); rerr == nil {
		if jerr := json.Unmarshal(text, &decoded); jerr != nil {
			r.t.Fatal(jerr)
		}
	}
	if err != nil {
		return []any{decoded, string(out), string(out)}
	}
	return []any{decoded, string(out), nil}
}

// value evaluates an expression of a case. Messages are maps, with the names that they have in JSON.
func (r *reading) value(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return r.value(e.X)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
		return e.Value
	case *ast.Ident:
		v, ok := r.vars[e.Name]
		if !ok {
			panic(unreadable("the name " + e.Name))
		}
		return v
	case *ast.BinaryExpr:
		return fmt.Sprint(r.value(e.X), r.value(e.Y))
	case *ast.IndexExpr:
		return r.part(r.value(e.X), fmt.Sprint(r.value(e.Index)))
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "proto" { // StepResult_failure
			return e.Sel.Name[strings.LastIndex(e.Sel.Name, "_")+1:]
		}
		name := []rune(e.Sel.Name)
		name[0] = unicode.ToLower(name[0])
		return r.part(r.value(e.X), string(name))
	case *ast.CallExpr:
		switch f := e.Fun.(type) {
		case *ast.Ident: // int32(1)
			return r.value(e.Args[0])
		case *ast.SelectorExpr:
			if f.Sel.Name == "IsAbs" {
				return filepath.IsAbs(fmt.Sprint(r.value(e.Args[0])))
			}
			if name := f.Sel.Name; name == "Error" || strings.HasPrefix(name, "Get") && strings.HasSuffix(name, "Value") {
				return r.value(f.X)
			}
		}
	}
	panic(unreadable(fmt.Sprintf("an expression that is a %T", e)))
}

// part is a field or an element; nil where there is none, as JSON leaves out what has its zero value.
func (r *reading) part(of any, name string) any {
	switch of := of.(type) {
	case map[string]any:
		return of[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i < len(of) {
			return of[i]
		}
	}
	return nil
}

// require carries out what a case demands, and says what is otherwise.
func (r *reading) require(call *ast.CallExpr) string {
	demand := call.Fun.(*ast.SelectorExpr).Sel.Name
	var args []any
	for _, a := range call.Args[1:] {
		args = append(args, r.value(a))
	}
	ok := false
	switch demand {
	case "NoError":
		ok = args[0] == nil
	case "Error", "NotNil":
		ok = args[0] != nil
	case "True":
		ok = args[0] == true
	case "Len":
		list, _ := args[0].([]any)
		ok = fmt.Sprint(len(list)) == fmt.Sprint(args[1])
	case "Equal":
		ok = fmt.Sprint(args[0]) == fmt.Sprint(args[1])
	case "Contains":
		ok = strings.Contains(fmt.Sprint(args[0]), fmt.Sprint(args[1]))
	case "NotContains":
		ok = !strings.Contains(fmt.Sprint(args[0]), fmt.Sprint(args[1]))
	default:
		panic(unreadable("require." + demand))
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("require.%s%.2000q", demand, args)
}
