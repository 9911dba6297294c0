package paid

import (
	"fmt"
	"math"
	"time"

	"github.com/rungci/rung/fleet/group"
	"github.com/rungci/rung/fleet/scale"
)

// Rate is what an instance of a kind costs.
type Rate struct {
	Shape string `json:"shape,omitempty"` // empty: any
	Zone  string `json:"zone,omitempty"`  // empty: any
	Spot  bool   `json:"spot,omitempty"`
	// Price is that of an hour, in Currency.
	Price    float64 `json:"price"`
	Currency string  `json:"currency,omitempty"`
	// Minimum is the time that is paid for at least, and Step that in which time is counted; 0: by the second.
	Minimum time.Duration `json:"minimum,omitempty"`
	Step    time.Duration `json:"step,omitempty"`
}

// Cost is what an instance costs that exists for some time.
func (r Rate) Cost(lived time.Duration) float64 {
	step := r.Step
	if step <= 0 {
		step = time.Second
	}
	return r.Price * scale.Billing{Granularity: step, Minimum: r.Minimum}.Paid(max(0, lived)).Hours()
}

// Rates are those of offers. The error says which has no price, or that they are not of one currency.
func Rates(offers []group.Offer) ([]Rate, error) {
	var all []Rate
	for _, o := range offers {
		switch {
		case !(o.Price > 0) || math.IsInf(o.Price, 1): // NaN is neither
			return nil, fmt.Errorf("%w: its offer %q has none (%v)", ErrNoPrice, o.Shape, o.Price)
		case len(all) > 0 && o.Currency != all[0].Currency:
			return nil, fmt.Errorf("%w that can be added: some are in %s and some in %s", ErrNoPrice, all[0].Currency, o.Currency)
		}
		all = append(all, Rate{Shape: o.Shape, Zone: o.Zone, Spot: o.Spot, Price: o.Price, Currency: o.Currency, Minimum: o.Minimum, Step: o.Step})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: it has no offers", ErrNoPrice)
	}
	return all, nil
}

// rateOf is that of a request, which is the highest where several could be meant: over the time of a hold.
func rateOf(rates []Rate, r group.Request, hold time.Duration) (out Rate) {
	fits := func(one Rate) bool {
		return one.Shape == "" || one.Shape == r.Shape && one.Spot == r.Spot && (r.Zone == "" || one.Zone == "" || one.Zone == r.Zone)
	}
	found := false
	for _, one := range rates {
		switch fit := fits(one); {
		case fit && !found, fit == found && one.Cost(hold) > out.Cost(hold):
			out, found = one, fit
		}
	}
	return out
}
