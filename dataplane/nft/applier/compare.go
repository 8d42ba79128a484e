// SPDX-License-Identifier: Apache-2.0

package applier

import "fmt"

// Comparison is the result of comparing the kernel's table with another one.
type Comparison struct {
	// Chains, Sets and Elements are the numbers of those of the desired table.
	Chains   int `json:"chains"`
	Sets     int `json:"sets"`
	Elements int `json:"elements"`
	// Changes are what would make the kernel's table the desired one, in the syntax of nft: empty if they
	// are equal. If the kernel's table would have to be replaced, it is the whole table. Rules that nft
	// loads decide alike, but lack the user data by which an Applier knows its own.
	Changes string `json:"changes,omitempty"`
	// Reason says in one line what differs, empty if nothing.
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
