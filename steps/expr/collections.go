package expr

// parseCall reads the arguments of a call, whose opening parenthesis is the current token. Unlike in arrays and objects, a
// comma behind the last one is not allowed.
func (p *parser) parseCall(name token) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	var args []node
	for !p.tok.is(")") || len(args) > 0 {
		arg, err := p.parseBinary(1)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		if !p.tok.is(",") {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	where := at{name.start, p.tok.end}
	return &call{where, name.text, args}, p.expect(")")
}

// parseArray reads an array literal, whose opening bracket is the current token.
func (p *parser) parseArray() (node, error) {
	start := p.tok.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	var items []node
	for !p.tok.is("]") {
		item, err := p.parseBinary(1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if done, err := p.separator("]"); done || err != nil {
			if err != nil {
				return nil, err
			}
			break
		}
	}
	return &array{at{start, p.tok.end}, items}, p.advance()
}

// parseObject reads an object literal, whose opening brace is the current token.
func (p *parser) parseObject() (node, error) {
	start := p.tok.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	var fields []field
	for !p.tok.is("}") {
		f, err := p.parseField()
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
		if done, err := p.separator("}"); done || err != nil {
			if err != nil {
				return nil, err
			}
			break
		}
	}
	return &object{at{start, p.tok.end}, fields}, p.advance()
}

// separator skips a comma; done reports whether the closing symbol is there instead.
func (p *parser) separator(closer string) (done bool, err error) {
	if p.tok.is(closer) {
		return true, nil
	}
	if !p.tok.is(",") {
		return false, p.unexpected(`"," or ` + quote(closer))
	}
	return false, p.advance()
}

func (p *parser) parseField() (field, error) {
	key, err := p.parseKey()
	if err != nil {
		return field{}, err
	}
	if err := p.expect(":"); err != nil {
		return field{}, err
	}
	v, err := p.parseBinary(1)
	return field{key, v}, err
}

// parseKey reads an object's key: a name or string, or any expression in parentheses.
func (p *parser) parseKey() (node, error) {
	tok := p.tok
	switch {
	case tok.kind == tokenName:
		if _, ok := keyword(tok.text); ok {
			break
		}
		return nameLiteral(tok), p.advance()
	case tok.kind == tokenRaw, tok.kind == tokenQuote, tok.is("("):
		return p.parsePrimary()
	}
	if tok.kind == tokenEnd || tok.is(",") || tok.is(":") {
		return nil, p.unexpected("a key")
	}
	return nil, newError(p.source, tok.start, tok.end, "a key is a name, a string, or an expression in parentheses",
		"object keys must be strings, found %s", quote(p.source[tok.start:tok.end]))
}
