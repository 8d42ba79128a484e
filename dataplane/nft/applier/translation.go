// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Translation names a map that destination NAT looks up. Destination NAT translates the first
// packet of a connection in one hook; filter rules see it in a later one. While the table changes,
// the old map could translate it and the new rules filter it. Its connection would keep that
// translation.
//
// So if a change adds, removes or replaces elements of the map, the Applier first adds drop rules
// for new connections to these keys. They are in all hooks that destination NAT can be in. After a
// grace period the change follows, and then the drop rules are deleted. Other connections are not
// affected. The replacement of a table without an owner is guarded in the same way, for all keys.
type Translation struct {
	// Map is the name of the map.
	Map string
	// Matches and Fields are those of the rule that looks up the map. The priority of that rule's
	// chain must be a number greater than -100, the priority of destination NAT.
	Matches []ruleset.Match
	Fields  []ruleset.Field
}

// validate reports a Translation without a map or fields.
func (t *Translation) validate() error {
	if t.Map == "" || len(t.Fields) == 0 {
		return errors.New("applier: config: Translations: Map and Fields must be given")
	}
	return nil
}
