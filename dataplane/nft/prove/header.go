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

// headerNames has the fields of verdict.Flow and policy.HeaderMatch that header fields are, as indexes.
// They are found by their names, so a new field needs no change here: "tcp flags" is TCPFlags.
type headerNames struct {
	// flow is nil if a packet has the standard value only.
	flow [ruleset.HeaderFields][]int
	// match lists the values that a packet must have or must not have. It is empty if a rule has another
	// form of match.
	match [ruleset.HeaderFields][][]int
}

func newHeaderNames() *headerNames {
	n := &headerNames{}
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		name := strings.ReplaceAll(h.String(), " ", "")
		find := func(t reflect.Type, name string) []int {
			f, _ := t.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
			return f.Index
		}
		n.flow[h] = find(reflect.TypeFor[verdict.Flow](), name)
		for _, name := range []string{name, "not" + name} {
			if i := find(reflect.TypeFor[policy.HeaderMatch](), name); i != nil {
				n.match[h] = append(n.match[h], i)
			}
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

// mentioned calls do with each value that a rule mentions.
func (n *headerNames) mentioned(m *policy.HeaderMatch, do func(h ruleset.HeaderField, value int)) {
	v := reflect.ValueOf(m).Elem()
	for h, fields := range n.match {
		for _, index := range fields {
			list := v.FieldByIndex(index)
			for i := range list.Len() {
				do(ruleset.HeaderField(h), int(list.Index(i).Uint()))
			}
		}
	}
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
