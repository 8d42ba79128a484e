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

// headerNames maps header fields to the fields of verdict.Flow with the same names: "tcp flags" is
// TCPFlags. So a new header field needs no change here.
type headerNames struct {
	// flow has the index of the Flow's field for each header field. It is nil if packets have only
	// the standard value.
	flow [ruleset.HeaderFields][]int
	// byName has the header fields by the names of the Flow's fields.
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

// set sets the header fields of a flow.
func (n *headerNames) set(f *verdict.Flow, values header) {
	v := reflect.ValueOf(f).Elem()
	for h, index := range n.flow {
		if index != nil {
			v.FieldByIndex(index).SetUint(uint64(values[h]))
		}
	}
}

// mentioned calls do with each range of values that a match mentions.
func (n *headerNames) mentioned(m *policy.HeaderMatch, do func(h ruleset.HeaderField, first, last int)) {
	m.HeaderValues(func(field string, first, last uint64) {
		if h, ok := n.byName[field]; ok {
			do(h, int(first), int(last))
		}
	})
}

// headerValues returns the values of a field for the packets to try: one for each kind that the
// mentions distinguish. It leaves out values that Report.NotProved names.
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
