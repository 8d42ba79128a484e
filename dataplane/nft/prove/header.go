// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"reflect"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// header has the values of a packet's header fields.
type header [ruleset.HeaderFields]uint16

// headerNames has the fields of verdict.Flow that header fields are. They are found by their names, so
// a new field needs no change here: "tcp flags" is TCPFlags.
type headerNames struct {
	// flow are their indexes. An index is nil if a packet has the standard value only.
	flow [ruleset.HeaderFields][]int
	// byName has the header fields by the names of those of a flow.
	byName map[string]ruleset.HeaderField
}

func newHeaderNames() *headerNames {
	n := &headerNames{byName: map[string]ruleset.HeaderField{}}
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		name := strings.ReplaceAll(h.String(), " ", "")
		f, ok := reflect.TypeFor[verdict.Flow]().FieldByNameFunc(
			func(s string) bool { return strings.EqualFold(s, name) },
		)
		if ok {
			n.flow[h], n.byName[f.Name] = f.Index, h
		}
	}
	return n
}

// set gives a flow the values.
func (n *headerNames) set(f *verdict.Flow, values header) {
	v := reflect.ValueOf(f).Elem()
	for h, index := range n.flow {
		if index != nil {
			v.FieldByIndex(index).SetUint(uint64(values[h]))
		}
	}
}

// mentioned calls do with each range of values that a rule mentions.
func (n *headerNames) mentioned(m *policy.HeaderMatch, do func(h ruleset.HeaderField, first, last int)) {
	m.HeaderValues(func(field string, first, last uint64) {
		if h, ok := n.byName[field]; ok {
			do(h, int(first), int(last))
		}
	})
}

// headerValues returns the values of a field that packets have, of which the mentions tell each from the
// others. Those that Report.NotProved names are left out.
func headerValues(h ruleset.HeaderField, v6 bool, mentioned ranges) []int {
	standard := 0
	switch {
	case h == ruleset.HeaderTCPFlags:
		return []int{int(ruleset.TCPSyn)}
	case h == ruleset.HeaderICMPType && v6:
		standard = echoRequestV6
	case h == ruleset.HeaderICMPType:
		standard = echoRequest
	}
	values := mentioned.values(standard, 0, int(h.Max()))
	if h == ruleset.HeaderICMPType && v6 {
		values = slices.DeleteFunc(values, func(v int) bool { return v >= firstDiscovery && v <= lastDiscovery })
	}
	return values
}
