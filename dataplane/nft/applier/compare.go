// SPDX-License-Identifier: Apache-2.0

package applier

import "fmt"

// Comparison is the result of comparing the kernel's table with another one.
type Comparison struct {
	// Chains, Sets and Elements are the numbers of these objects in the desired table.
	Chains   int `json:"chains"`
	Sets     int `json:"sets"`
	Elements int `json:"elements"`
	// Changes has the changes, in the syntax of nft, that make the kernel's table equal to the
	// desired one. This text is empty if the tables are equal. If the kernel's table is missing or
	// would have to be replaced, the text has the whole desired table. Rules that nft loads from
	// this text have the same effect, but lack the user data by which an Applier recognizes its own
	// rules.
	Changes string `json:"changes,omitempty"`
	// Reason describes the difference in one line. It is empty if there is none.
	Reason string `json:"reason,omitempty"`
}

// Equal reports whether the tables are equal.
func (c Comparison) Equal() bool { return c.Reason == "" }

// String returns the result in one line, followed by the changes.
func (c Comparison) String() string {
	if c.Equal() {
		return fmt.Sprintf("equal (%d chains, %d sets, %d elements)", c.Chains, c.Sets, c.Elements)
	}
	return fmt.Sprintf("different: %s\n%s", c.Reason, c.Changes)
}
