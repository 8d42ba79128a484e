// SPDX-License-Identifier: Apache-2.0

package tableowner

import "fmt"

// Owner is the owner of a table.
type Owner struct {
	// Port is the netlink port of the owner's socket. 0 means that the table has no owner.
	Port uint32
	// PID is the id of the process that has the socket, and Name its name. They are empty if no
	// process in this process's PID namespace has the socket.
	PID  int
	Name string
}

// String returns the name of the process, or the netlink port if the process is unknown.
func (o Owner) String() string {
	if o.PID == 0 {
		return fmt.Sprintf("netlink port %d", o.Port)
	}
	return o.Name
}
