package expr

import (
	"errors"
	"math"
	"math/big"

	"github.com/rungci/rung/steps/value"
)

var (
	errDivisionByZero = errors.New("division by zero")
	errOverflow       = errors.New("the result is too large for a number")
)

// calculate applies an arithmetic operator to two numbers. Integers are exact as long as the result has at most 64 bits;
// a division is exact when nothing remains. Everything else is done in doubles.
func calculate(operator string, a, b value.Value) (value.Value, error) {
	if (operator == "/" || operator == "%") && b.Float() == 0 {
		return value.Value{}, errDivisionByZero
	}
	i, ok := a.Integer()
	j, also := b.Integer()
	if ok && also {
		return calculateIntegers(operator, i, j), nil
	}
	x, y := a.Float(), b.Float()
	var f float64
	switch operator {
	case "+":
		f = x + y
	case "-":
		f = x - y
	case "*":
		f = x * y
	case "/":
		f = x / y
	default:
		f = math.Mod(x, y)
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return value.Value{}, errOverflow
	}
	return value.OfFloat(f), nil
}

// calculateIntegers expects that j is not zero in a division. No result is too large: 128 bits fit in a double.
func calculateIntegers(operator string, i, j *big.Int) value.Value {
	result := new(big.Int)
	switch operator {
	case "+":
		result.Add(i, j)
	case "-":
		result.Sub(i, j)
	case "*":
		result.Mul(i, j)
	case "%":
		result.Rem(i, j) // truncated: the sign is that of i
	default:
		if _, rest := result.QuoRem(i, j, new(big.Int)); rest.Sign() != 0 {
			f, _ := new(big.Rat).SetFrac(i, j).Float64() // rounds once, also where i and j have more than 53 bits
			return value.OfFloat(f)
		}
	}
	return value.OfBig(result)
}

func negate(v value.Value) value.Value {
	if i, ok := v.Integer(); ok {
		return value.OfBig(new(big.Int).Neg(i))
	}
	return value.OfFloat(-v.Float())
}
