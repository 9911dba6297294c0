package keyword_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
)

const (
	day  = 24 * time.Hour
	year = 8766 * time.Hour
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"42":                         42 * time.Second,
		"42 seconds":                 42 * time.Second,
		"3 mins 4 sec":               3*time.Minute + 4*time.Second,
		"2 hrs 20 min":               2*time.Hour + 20*time.Minute,
		"2h20min":                    2*time.Hour + 20*time.Minute,
		"1h 30m":                     time.Hour + 30*time.Minute,
		"1h 30":                      time.Hour + 30*time.Second,
		"1.5 hours":                  90 * time.Minute,
		".5h":                        30 * time.Minute,
		"6 mos 1 day":                181 * day,
		"47 yrs 6 mos and 4d":        47*year + 184*day,
		"3 weeks and 2 days":         23 * day,
		"2 weeks, 3 days":            17 * day,
		"1 mo":                       30 * day,
		"1 y":                        year,
		"day":                        day,
		"minute 30sec":               time.Minute + 30*time.Second,
		"one hour":                   time.Hour,
		"twenty-five minutes":        25 * time.Minute,
		"twenty five minutes":        25 * time.Minute,
		"two hundred thirty seconds": 230 * time.Second,
		"one thousand one secs":      1001 * time.Second,
		"4:30":                       4*time.Minute + 30*time.Second,
		"1:02:03":                    time.Hour + 2*time.Minute + 3*time.Second,
		"1 HOUR":                     time.Hour,
		"1 day with 2 hours":         26 * time.Hour,
	} {
		t.Run("reads "+text, func(t *testing.T) {
			got, err := keyword.ParseDuration(text)
			if err != nil || got != want {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
	for text, want := range map[string]string{
		"":                             `"" is not a duration`,
		"   ":                          `"   " is not a duration`,
		"0":                            `"0" is not a duration`,
		"0 days":                       `"0 days" is not a duration`,
		"never":                        `"never" is not a unit of time`,
		"soon":                         `"soon" is not a unit of time`,
		"1 fortnight":                  `"fortnight" is not a unit of time`,
		"-1 day":                       `"-" is not a unit of time`,
		"1 2 hours":                    `the number 1 in "1 2 hours" has no unit`,
		"1:":                           `"1:" is not a duration`,
		"1:2:3:4:5:6:7":                "a clock has at most six parts",
		"1..5 h":                       `"1..5 h" is not a duration`,
		"400 years":                    `"400 years" is too long`,
		"9" + strings.Repeat("9", 400): "is too long",
		strings.Repeat("1 day ", 200):  "the text is longer than 1024 bytes, which is the limit",
	} {
		t.Run("refuses "+text[:min(len(text), 20)], func(t *testing.T) {
			got, err := keyword.ParseDuration(text)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h 30m", "3 hrs 20 mins", "2 weeks and 3 days", "1:30:00", "one hundred hours", "1e9", "99999999999999 y", "a,b", "٣ days", "hundred hundred hundred thousand"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := keyword.ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
		again, err := keyword.ParseDuration(d.Round(time.Second).String())
		if d >= time.Second && (err != nil || again != d.Round(time.Second)) {
			t.Fatalf("%q is %v, and that is %v, %v", text, d, again, err)
		}
	})
}
