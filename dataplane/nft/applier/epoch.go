// SPDX-License-Identifier: Apache-2.0

package applier

import "errors"

// Epoch names a set and the chains with rules that look into it. A packet that does not match the
// set is stale: it may have used the old state in one lookup and the new state in another.
//
// A packet uses the rules as they are when it enters a base chain, but the current elements of
// sets and maps. A transaction that a packet could use in part begins a new epoch: it replaces the set
// by one of the same name and content, and the rules that look into it. A packet that entered before
// looks into the old set, which is empty from then on.
//
// A transaction begins no new epoch if its own operations change the set, add or replace such a rule,
// or add, delete or change the policy of such a chain.
type Epoch struct {
	Set    string   // must match every packet
	Chains []string // the chains with rules that look into Set
}

// validate reports an Epoch with only one of its fields.
func (e *Epoch) validate() error {
	if (e.Set == "") != (len(e.Chains) == 0) {
		return errors.New("applier: config: Epoch: Set and Chains must be given together")
	}
	return nil
}
