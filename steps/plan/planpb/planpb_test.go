package planpb_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/plan/planpb"
	"github.com/rungci/rung/steps/value"
)

// equal compares components with the marks of their values; empty lists and maps are none.
var equal = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b value.Value) bool { return value.Equal(a, b) && sameMarks(a, b) }),
}

func sameMarks(a, b value.Value) bool {
	if a.Marked() != b.Marked() {
		return false
	}
	for i, item := range a.Items() {
		if !sameMarks(item, b.Items()[i]) {
			return false
		}
	}
	for name, field := range a.Fields() {
		if !sameMarks(field, b.Fields()[name]) {
			return false
		}
	}
	return true
}

func roundTrip(t *testing.T, c *plan.Component) *plan.Component {
	t.Helper()
	data, err := planpb.Marshal(c)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	back, err := planpb.Unmarshal(data)
	if err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	return back
}

// generator makes components by reflection, so that a field that is added to the plan is tested without being named here.
type generator struct {
	*rand.Rand
	full bool // leave nothing empty that may be set
}

const deepest = 4

func (g *generator) component() *plan.Component {
	c := &plan.Component{}
	g.fill(reflect.ValueOf(c).Elem(), 0)
	return c
}

func (g *generator) some(depth int) bool {
	return g.full && depth < deepest || g.Intn(2+depth) == 0
}

func (g *generator) fill(v reflect.Value, depth int) {
	switch target := v.Addr().Interface().(type) {
	case *value.Value:
		*target = g.value(depth)
		return
	case *value.Kind:
		*target = []value.Kind{value.String, value.Number, value.Boolean, value.Struct, value.Array}[g.Intn(5)]
		return
	case *plan.RefKind:
		*target = []plan.RefKind{plan.RefLocal, plan.RefGit, plan.RefOCI, plan.RefBuiltin, plan.RefDynamic, plan.RefAction, plan.RefArchive}[g.Intn(7)]
		return
	case *plan.When:
		*target = []plan.When{plan.OnSuccess, plan.OnFailure, plan.Always}[g.Intn(3)]
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			g.fill(v.Field(i), depth+1)
		}
		g.choose(v.Addr().Interface())
	case reflect.Pointer:
		if g.some(depth) {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if g.some(depth) {
			v.Set(reflect.MakeSlice(v.Type(), 1+g.Intn(2), 2))
			for i := range v.Len() {
				g.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if g.some(depth) {
			v.Set(reflect.MakeMap(v.Type()))
			for range 1 + g.Intn(2) {
				item := reflect.New(v.Type().Elem()).Elem()
				g.fill(item, depth+1)
				v.SetMapIndex(reflect.ValueOf(g.text()), item)
			}
		}
	case reflect.String:
		v.SetString(g.text())
	case reflect.Bool:
		v.SetBool(g.full || g.Intn(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 + g.Int63())
	default:
		panic(fmt.Sprintf("the plan has a field of kind %s, which the generator does not know", v.Kind()))
	}
}

// choose keeps one of the parts that exclude each other.
func (g *generator) choose(part any) {
	switch p := part.(type) {
	case *plan.Definition:
		if p.Exec != nil && g.Intn(2) == 0 {
			p.Steps = nil
		} else {
			p.Exec = nil
		}
	case *plan.Exec:
		if p.Script != nil && g.Intn(2) == 0 {
			p.Command = nil
		} else {
			p.Script = nil
		}
	case *plan.Hook:
		if p.Exec == nil {
			p.Exec = &plan.Exec{Toolkit: g.text()}
		}
	case *plan.Step:
		switch g.Intn(4) {
		case 0:
			p.Inline, p.Parallel, p.Await = nil, nil, nil
		case 1:
			p.Ref, p.Parallel, p.Await = nil, nil, nil
		case 2:
			p.Ref, p.Inline, p.Parallel = nil, nil, nil
		default:
			p.Ref, p.Inline, p.Await = nil, nil, nil
		}
		if p.Parallel == nil {
			p.Limit = 0
		}
	}
}

func (g *generator) text() string {
	texts := []string{"a", "name", "größe", "${{ inputs.x }}", "two\nlines", "\U0001F600", "nul\x00"}
	return texts[g.Intn(len(texts))] + fmt.Sprint(g.Intn(1000))
}

func (g *generator) value(depth int) value.Value {
	leaves := []value.Value{
		{}, value.OfBool(true), value.OfBool(false), value.OfString(""), value.OfString(g.text()), value.OfString("\xff\xfe"),
		value.OfInt(0), value.OfInt(g.Int63()), value.OfInt(-g.Int63()), value.OfInt(math.MinInt64), value.OfInt(math.MaxInt64),
		value.OfBig(new(big.Int).SetUint64(math.MaxUint64)),
		value.OfBig(new(big.Int).Neg(new(big.Int).SetUint64(math.MaxUint64))),
		value.OfFloat(g.NormFloat64()), value.OfFloat(1e300), value.OfFloat(-5e-324),
	}
	var v value.Value
	switch kind := g.Intn(4); {
	case kind == 0 && depth < deepest+3:
		items := make([]value.Value, g.Intn(3))
		for i := range items {
			items[i] = g.value(depth + 1)
		}
		v = value.OfArray(items)
	case kind == 1 && depth < deepest+3:
		fields := map[string]value.Value{}
		for range g.Intn(3) {
			fields[g.text()] = g.value(depth + 1)
		}
		v = value.OfStruct(fields)
	default:
		v = leaves[g.Intn(len(leaves))]
	}
	return v.Mark(g.Intn(5) == 0)
}

func TestRoundTrip(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("generated components come back equal, full=%v", full), func(t *testing.T) {
			for seed := range int64(300) {
				g := &generator{rand.New(rand.NewSource(seed)), full}
				c := g.component()
				if diff := cmp.Diff(c, roundTrip(t, c), equal); diff != "" {
					t.Fatalf("seed %d: (-given +back)\n%s", seed, diff)
				}
			}
		})
	}
	t.Run("every integer of up to 64 bits is exact", func(t *testing.T) {
		for _, text := range []string{
			"0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
			"-9223372036854775809", "18446744073709551615", "-9999999999999999999",
		} {
			v, err := value.ParseNumber(text)
			if err != nil {
				t.Fatal(err)
			}
			m, err := planpb.ToValue(v)
			if err != nil {
				t.Fatal(err)
			}
			back, err := planpb.FromValue(m)
			if err != nil {
				t.Fatal(err)
			}
			if got := back.Text(); got != text {
				t.Errorf("%s came back as %s", text, got)
			}
		}
	})
	t.Run("an empty list of steps is not the same as none", func(t *testing.T) {
		c := &plan.Component{Definition: plan.Definition{Steps: []plan.Step{}}}
		if back := roundTrip(t, c); back.Definition.Steps == nil {
			t.Error("the empty list came back as none")
		}
	})
	t.Run("the same component gives the same bytes", func(t *testing.T) {
		c := (&generator{rand.New(rand.NewSource(1)), true}).component()
		first, err := planpb.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if again, _ := planpb.Marshal(c); string(again) != string(first) {
				t.Fatal("the bytes differ")
			}
		}
	})
}

func TestToProtoRefuses(t *testing.T) {
	step := func(s plan.Step) *plan.Component {
		return &plan.Component{Definition: plan.Definition{Steps: []plan.Step{{}, s}}}
	}
	nested := &plan.Component{}
	for range planpb.MaxNesting + 1 {
		nested = step(plan.Step{Inline: nested})
	}
	deep := value.OfInt(1)
	for range value.MaxDepth + 1 {
		deep = value.OfArray([]value.Value{deep})
	}
	tests := map[string]struct {
		give *plan.Component
		want string
	}{
		"an exec beside steps": {
			&plan.Component{Definition: plan.Definition{Exec: &plan.Exec{}, Steps: []plan.Step{{}}}},
			"definition: a definition has an exec or steps, not both",
		},
		"a command beside a script": {
			&plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Command: []plan.Field{}, Script: &plan.Script{}}}},
			"definition.exec: an exec has a command or a script, not both",
		},
		"a reference beside an inline definition": {
			step(plan.Step{Ref: &plan.Reference{}, Inline: &plan.Component{}}),
			"definition.steps[1]: a step has one of a reference, an inline definition, a parallel group and a wait",
		},
		"a limit without a group": {step(plan.Step{Limit: 2}), "definition.steps[1]: a step that is not a parallel group has no limit"},
		"an unknown kind of reference": {
			step(plan.Step{Ref: &plan.Reference{Kind: "zip"}}),
			"definition.steps[1].ref: zip is not a kind of reference",
		},
		"an unknown condition": {step(plan.Step{When: "sometimes"}), `definition.steps[1]: sometimes is not a value of "when"`},
		"an input of type null": {
			&plan.Component{Spec: plan.Spec{Inputs: map[string]plan.Input{"n": {}}}},
			`spec.inputs["n"]: null is not a type`,
		},
		"infinity, with the place": {
			step(plan.Step{Inputs: map[string]plan.Field{"a": {Value: value.OfArray([]value.Value{{}, value.OfFloat(math.Inf(1))})}}}),
			`definition.steps[1].inputs["a"][1]: infinity and NaN are not numbers a step can use`,
		},
		"steps that nest too deep": {nested, "steps nest deeper than 200 levels"},
		"values that nest too deep": {
			step(plan.Step{Inputs: map[string]plan.Field{"a": {Value: deep}}}), "nested deeper than 200 levels",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := planpb.ToProto(tt.give)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFromProtoRefuses(t *testing.T) {
	tests := map[string]struct {
		give *planv1.Component
		want string
	}{
		"no component": {nil, "there is no component"},
		"a type that is not set": {
			&planv1.Component{Spec: &planv1.Spec{Inputs: map[string]*planv1.Input{"n": {}}}},
			`spec.inputs["n"]: TYPE_UNSPECIFIED is not a type that this version knows`,
		},
		"a condition from the future": {
			&planv1.Component{Definition: &planv1.Definition{Body: &planv1.Definition_Steps{
				Steps: &planv1.StepList{Steps: []*planv1.Step{{When: 77}}},
			}}},
			`definition.steps[0]: 77 is not a value of "when" that this version knows`,
		},
		"a field without a value": {
			&planv1.Component{Definition: &planv1.Definition{Env: map[string]*planv1.Field{"A": {}}}},
			`definition.env["A"]: the value has no kind`,
		},
		"a number that is not finite": {
			&planv1.Component{Definition: &planv1.Definition{Env: map[string]*planv1.Field{
				"A": {Value: &planv1.Value{Kind: &planv1.Value_Number{Number: math.NaN()}}},
			}}},
			`definition.env["A"]: infinity and NaN`,
		},
		"a duration of a thousand years": {
			&planv1.Component{Definition: &planv1.Definition{Body: &planv1.Definition_Exec{
				Exec: &planv1.Exec{Timeout: &durationpb.Duration{Seconds: 1000 * 365 * 24 * 3600}},
			}}},
			"definition.exec: 31536000000s is longer than the longest duration",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := planpb.FromProto(tt.give)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("bytes that are no message", func(t *testing.T) {
		if _, err := planpb.Unmarshal([]byte("run:\n- name: a")); err == nil {
			t.Error("no error")
		}
	})
}

func FuzzUnmarshal(f *testing.F) {
	for seed := range int64(5) {
		g := &generator{rand.New(rand.NewSource(seed)), seed == 0}
		data, err := planpb.Marshal(g.component())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	timeout, err := planpb.Marshal(&plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Timeout: plan.Duration(time.Second)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(timeout)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := planpb.Unmarshal(data)
		if err != nil {
			return
		}
		if diff := cmp.Diff(c, roundTrip(t, c), equal); diff != "" {
			t.Fatalf("(-first +again)\n%s", diff)
		}
		message, err := planpb.ToProto(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := proto.Marshal(message); err != nil {
			t.Fatalf("the message does not encode: %v", err)
		}
	})
}
