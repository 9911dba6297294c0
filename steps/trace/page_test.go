package trace

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// minContrast is what WCAG 2.2 asks of text at level AA.
const minContrast = 4.5

// TestTextOnThePageHasContrast computes the contrast of all text colours of the page, those of logs too, on everything that they can be
// on. e2e checks pages as browsers show them.
func TestTextOnThePageHasContrast(t *testing.T) {
	surfaces := []string{"bg", "panel", "sunken", "accent-soft"}
	notices := []string{"bad-soft", "warn-soft", "run-soft"}
	on := map[string][]string{
		"text": slices.Concat(surfaces, notices), "muted": slices.Concat(surfaces, notices), "faint": slices.Concat(surfaces, notices), "accent": surfaces,
		"ok": append([]string{"ok-soft"}, surfaces...), "bad": append([]string{"bad-soft"}, surfaces...),
		"warn": append([]string{"warn-soft"}, surfaces...), "run": append([]string{"run-soft"}, surfaces...), "mark-text": {"mark", "mark-now"},
		"panel": {"text"},
	}
	for i := range 16 {
		log := fmt.Sprintf("a%d", i)
		on[log] = append([]string{"sunken"}, notices...)
		on["panel"] = append(on["panel"], log)
	}
	themes := regexp.MustCompile(`(?s):root([^{]*)\{(.*?)\}`).FindAllStringSubmatch(pageCSS, -1)
	if len(themes) != 2 {
		t.Fatalf("the page has %d themes", len(themes))
	}
	for _, theme := range themes {
		colors := map[string]string{}
		for _, c := range regexp.MustCompile(`--([\w-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(theme[2], -1) {
			colors[c[1]] = c[2]
		}
		for text, backs := range on {
			for _, back := range backs {
				if got := contrast(t, colors[text], colors[back]); got < minContrast {
					t.Errorf("%s: the contrast of %s on %s is %.2f", theme[1], text, back, got)
				}
			}
		}
	}
}

// contrast is the contrast ratio of two colours, "rrggbb", as WCAG defines it.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, color string) (sum float64) {
	t.Helper()
	n, err := strconv.ParseUint(color, 16, 24)
	if err != nil {
		t.Fatalf("a colour of the page: %v", err)
	}
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		part := float64(n>>(8*i)&0xff) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}
