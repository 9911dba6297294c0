package expr

import (
	"errors"
	"slices"

	"github.com/rungci/rung/steps/value"
)

// Type is what is known of a value before it is computed. The zero Type can be anything.
type Type struct {
	Known bool // Kind is known
	Kind  value.Kind
	// Fields are those of a struct whose types are known. A closed struct has no others.
	Fields map[string]Type
	Closed bool
}

// OfKind is the type of values of one kind, of which no more is known.
func OfKind(k value.Kind) Type { return Type{Known: true, Kind: k} }

// ClosedStruct is the type of structs with exactly the given fields.
func ClosedStruct(fields map[string]Type) Type {
	return Type{Known: true, Kind: value.Struct, Fields: fields, Closed: true}
}

// Types is what an expression can see, before it is evaluated.
type Types interface {
	// Type returns the type of a top-level name.
	Type(name string) (Type, bool)
	// Names returns the top-level names, for error messages.
	Names() []string
	// HasFunction reports whether there is a function beyond str, num and bool.
	HasFunction(name string) bool
}

// Mistake is what will be wrong with an expression whatever it is evaluated with.
type Mistake struct {
	*Error
	// Path are the names on the way to what does not exist, the top-level one first; nil for other mistakes.
	Path []string
	// Function is set when what does not exist is a function.
	Function bool
}

// Infer returns what is known of the expression's value, and what is wrong with it: names, fields and functions that do not exist, and
// operators that do not take what they get. What depends on values is not wrong.
func (e *Expr) Infer(s Types) (Type, []Mistake) {
	in := &inference{types: s, ev: evaluation{scope: shapes{s}, source: e.source}}
	return in.infer(e.root), in.found
}

// Infer does the same for all templates in a value, as Expand evaluates them. Text that is no template is passed over.
func Infer(v value.Value, s Types) (Type, []Mistake) {
	switch v.Kind() {
	case value.String:
		if !Has(v.Str()) {
			return OfKind(value.String), nil
		}
		t, err := ParseTemplate(v.Str())
		if err != nil {
			return Type{}, nil // which whoever loads the text reports
		}
		var found []Mistake
		for _, part := range t.Parts() {
			if part.Expr == nil {
				continue
			}
			of, wrong := part.Expr.Infer(s)
			if found = append(found, wrong...); len(t.Parts()) == 1 {
				return of, found
			}
		}
		if _, whole := t.Whole(); whole {
			return Type{}, found
		}
		return OfKind(value.String), found
	case value.Array:
		var found []Mistake
		for i, item := range v.Items() {
			_, wrong := Infer(item, s)
			found = append(found, under(wrong, itemPath(i))...)
		}
		return OfKind(value.Array), found
	case value.Struct:
		var found []Mistake
		for _, key := range v.Keys() {
			_, wrong := Infer(value.OfString(key), s)
			found = append(found, under(wrong, keyPath(key))...)
			_, wrong = Infer(v.Fields()[key], s)
			found = append(found, under(wrong, keyPath(key))...)
		}
		return OfKind(value.Struct), found
	}
	return OfKind(v.Kind()), nil
}

func under(found []Mistake, step string) []Mistake {
	for i := range found {
		var located *Error
		if errors.As(within(found[i].Error, step), &located) {
			found[i].Error = located
		}
	}
	return found
}

// Constant returns the value of an expression that is the same wherever it is evaluated.
func (e *Expr) Constant() (value.Value, bool) {
	v, err := e.Eval(nil)
	return v, err == nil
}

// shapes lets messages about types be made as those about values are.
type shapes struct{ Types }

func (shapes) Lookup(string) (value.Value, bool) { return value.Value{}, false }

func (shapes) Call(string, []value.Value) (value.Value, bool, error) {
	return value.Value{}, false, nil
}

// inference goes through one expression.
type inference struct {
	types Types
	ev    evaluation
	found []Mistake
}

func (in *inference) infer(n node) Type {
	switch n := n.(type) {
	case *literal:
		return OfKind(n.value.Kind())
	case *group:
		return in.infer(n.inner)
	case *interpolation:
		for _, p := range n.pieces {
			if p.inner != nil {
				in.infer(p.inner)
			}
		}
		return OfKind(value.String)
	case *variable:
		return in.variable(n)
	case *call:
		return in.call(n)
	case *path:
		return in.path(n)
	case *unary:
		return in.unary(n)
	case *chain:
		return in.chain(n)
	case *array:
		for _, item := range n.items {
			in.infer(item)
		}
		return OfKind(value.Array)
	case *object:
		return in.object(n)
	}
	return Type{}
}

func (in *inference) variable(n *variable) Type {
	t, ok := in.types.Type(n.name)
	if !ok {
		var own *Error
		if errors.As(in.ev.unknownName(n), &own) {
			in.found = append(in.found, Mistake{Error: own, Path: []string{n.name}})
		}
	}
	return t
}

func (in *inference) object(n *object) Type {
	fields, closed := map[string]Type{}, true
	for _, f := range n.fields {
		key, literal := f.key.(*literal)
		t := in.infer(f.value)
		if !literal {
			in.infer(f.key)
			closed = false
		} else if key.value.Kind() == value.String {
			fields[key.value.Str()] = t
		}
	}
	return Type{Known: true, Kind: value.Struct, Fields: fields, Closed: closed}
}

func (in *inference) call(n *call) Type {
	for _, arg := range n.args {
		in.infer(arg)
	}
	kinds := map[string]value.Kind{"str": value.String, "num": value.Number, "bool": value.Boolean}
	kind, own := kinds[n.name]
	if own && len(n.args) == 1 {
		return OfKind(kind)
	}
	if !own && in.types.HasFunction(n.name) {
		if slices.Contains(functions, n.name) {
			return OfKind(value.Boolean)
		}
		return Type{}
	}
	call := *n
	call.args = make([]node, len(n.args))
	for i := range call.args {
		call.args[i] = &literal{}
	}
	_, err := call.eval(&in.ev)
	var wrong *Error
	if errors.As(err, &wrong) {
		in.found = append(in.found, Mistake{Error: wrong, Function: !own})
	}
	return Type{}
}

// path follows attributes and indexes as far as types are known.
func (in *inference) path(n *path) Type {
	t := in.infer(n.root)
	var names []string
	if root, ok := n.root.(*variable); ok {
		names = []string{root.name}
	}
	for i, step := range n.steps {
		name := step.name
		if step.index != nil {
			key, isLiteral := step.index.(*literal)
			if !isLiteral {
				in.infer(step.index)
			}
			if !isLiteral || key.value.Kind() != value.String {
				t, names = Type{}, nil
				continue
			}
			name = key.value.Str()
		}
		if names != nil {
			names = append(names, name)
		}
		field, ok := t.Fields[name]
		if !ok && t.Known && (t.Kind != value.Struct || t.Closed) {
			wrong := in.ev.missing(n, i, example(t), value.OfString(name))
			wrong.Missing = name
			in.found = append(in.found, Mistake{Error: wrong, Path: names})
			return Type{}
		}
		t = field
	}
	return t
}

// example is a value of a type, with which a message can be made.
func example(t Type) value.Value {
	switch t.Kind {
	case value.Struct:
		fields := make(map[string]value.Value, len(t.Fields))
		for name := range t.Fields {
			fields[name] = value.Value{}
		}
		return value.OfStruct(fields)
	case value.Array:
		return value.OfArray(nil)
	case value.String:
		return value.OfString("")
	case value.Number:
		return value.OfInt(0)
	case value.Boolean:
		return value.OfBool(false)
	}
	return value.Value{}
}

func (in *inference) unary(n *unary) Type {
	t := in.infer(n.operand)
	if n.operator == "!" {
		return OfKind(value.Boolean)
	}
	if t.Known && t.Kind != value.Number {
		_, err := (&unary{n.at, n.operator, &literal{value: example(t)}}).eval(&in.ev)
		in.wrong(err)
		return Type{}
	}
	return OfKind(value.Number)
}

func (in *inference) wrong(err error) {
	var own *Error
	if errors.As(err, &own) {
		in.found = append(in.found, Mistake{Error: own})
	}
}

// chain looks at operands from left to right.
func (in *inference) chain(n *chain) Type {
	left := in.infer(n.first)
	for _, t := range n.rest {
		right := in.infer(t.operand)
		switch precedence[t.operator] {
		case precedence["||"], precedence["&&"]:
			if !left.Known || !right.Known || left.Kind != right.Kind {
				left = Type{}
			} else {
				left = OfKind(left.Kind)
			}
		case precedence["=="]:
			left = OfKind(value.Boolean)
		default:
			left = in.arithmetic(n, t, left, right)
		}
	}
	return left
}

func (in *inference) arithmetic(n *chain, t term, left, right Type) Type {
	switch {
	case !left.Known || !right.Known:
		return Type{}
	case left.Kind == value.Number && right.Kind == value.Number:
		return OfKind(value.Number)
	case t.operator == "+" && left.Kind == value.String && right.Kind == value.String:
		return OfKind(value.String)
	}
	in.wrong(in.ev.mismatch(n, t, left.Kind, right.Kind))
	return Type{}
}
