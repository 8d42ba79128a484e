// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// scale is a unit that figures are shown in.
type scale struct {
	name   string
	factor float64 // of the smallest in its family
}

var (
	durations = []scale{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	sizes     = []scale{{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}
)

// measures are the words of units, as "ns" in "send-ns/flow".
var measures = map[string]struct {
	family []scale
	factor float64
}{
	"ns": {durations, 1}, "us": {durations, 1e3}, "µs": {durations, 1e3}, "ms": {durations, 1e6}, "s": {durations, 1e9},
	"B": {sizes, 1}, "KB": {sizes, 1e3}, "MB": {sizes, 1e6}, "MiB": {sizes, 1 << 20}, "GB": {sizes, 1e9},
}

// measure returns the scales to show a unit in, and the factor from it to the first of them. A
// number without a dimension has no scales.
func measure(unit string) ([]scale, float64) {
	words := strings.FieldsFunc(unit, func(r rune) bool { return r == '-' || r == '/' })
	for i, word := range words {
		rate := word == "s" && i == len(words)-1 && strings.HasSuffix(unit, "/s")
		if m, ok := measures[word]; ok && !rate {
			return m.family, m.factor
		}
	}
	return nil, 1
}

// format returns values of a unit in the scale of the first, as "0.59 / 0.62 s". Equal ones are
// shown once.
func format(unit string, values ...float64) string {
	family, factor := measure(unit)
	shown := scale{factor: 1}
	for i, s := range family {
		if i == 0 || math.Abs(values[0]*factor) >= s.factor {
			shown = s
		}
	}
	var texts []string
	for _, v := range values {
		text := number(v*factor/shown.factor, family == nil)
		if len(texts) == 0 || texts[0] != text {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, " / ")
	switch {
	case shown.name != "":
		return text + " " + shown.name
	case strings.HasPrefix(unit, "x-"):
		return text + "x"
	case strings.HasSuffix(unit, "/s"):
		return text + " a second"
	}
	return text
}

// number returns three digits. A count that is whole has all of its digits.
func number(v float64, count bool) string {
	switch {
	case v == math.Trunc(v) && (count || v == 0):
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case math.Abs(v) < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case math.Abs(v) < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return thousands(strconv.FormatFloat(v, 'f', 0, 64))
}

func thousands(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// show returns the minimum and the median.
func (f Figure) show(unit string) string { return format(unit, f.Min, f.Median) }

// quantity is the beginning of a target: "0.6 s".
var quantity = regexp.MustCompile(`^([\d.,]+)\s*(ns|us|µs|ms|s|B|KB|MB|MiB|GB)?(?:[^\pL]|$)`)

// parseQuantity returns the first value of a text in a unit. It is false if the text has no such
// value.
func parseQuantity(text, unit string) (float64, bool) {
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(m[1], ",."), ",", ""), 64)
	if err != nil {
		return 0, false
	}
	family, factor := measure(unit)
	given := measures[m[2]]
	if len(family) != len(given.family) || family != nil && family[0] != given.family[0] {
		return 0, false
	}
	if family == nil {
		return value, true
	}
	return value * given.factor / factor, true
}

// ratioTarget is the beginning of a target for a ratio: "1.25 times raw", "1.25x".
var ratioTarget = regexp.MustCompile(`^([\d.]+)(?: times|x)\b`)

// parseRatio returns the number of a target for a ratio. The second result is false if the text is
// not a target for a ratio.
func parseRatio(text string) (float64, bool) {
	m := ratioTarget.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(m[1], 64)
	return value, err == nil
}

// ratio returns "(1.31x)".
func ratio(value, base float64) string { return fmt.Sprintf("(%.2fx)", value/base) }
