package scale

import "time"

// profile is how often bursts came at each time of the day, on the days before.
type profile struct {
	rates [parts]float64 // bursts a second
	days  [parts]int     // of which each rate is
	part  int64          // the present one, since 1970; 0 is none
	count float64        // of bursts in it
}

// A day has parts, and a rate of the days before weighs as much as what came within priorWeight seconds. The newest day counts a half.
const (
	parts       = 48
	partLength  = int64(24 * time.Hour / time.Second / parts)
	priorWeight = 1800.0
)

// arrive counts a burst.
func (p *profile) arrive(now time.Time) {
	p.until(now)
	p.count++
}

// until ends the parts before a time.
func (p *profile) until(now time.Time) {
	part := now.Unix() / partLength
	if p.part == 0 || part-p.part > 7*parts { // nothing is known, or it was too long ago
		*p = profile{part: part}
		return
	}
	for ; p.part < part; p.part++ {
		i := p.part % parts
		rate := p.count / float64(partLength)
		if p.days[i] > 0 {
			rate = (rate + p.rates[i]) / 2
		}
		p.rates[i], p.count = rate, 0
		p.days[i]++
	}
}

// rate is how many bursts a second are expected at a time: as many came lately, of a number of seconds, and as many at that time of the day before.
func (p *profile) rate(at time.Time, lately, seconds float64) float64 {
	p.until(at)
	weight, sum, i := 0.0, 0.0, p.part%parts
	for _, part := range []int64{i + parts - 1, i, i + 1} {
		if part %= parts; p.days[part] > 0 {
			weight += priorWeight / 3
			sum += priorWeight / 3 * p.rates[part]
		}
	}
	return (lately + sum) / (seconds + weight)
}
