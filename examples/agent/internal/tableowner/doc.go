// SPDX-License-Identifier: Apache-2.0

// Package tableowner finds the process that owns an nftables table.
//
// # Usage
//
//	owner, err := tableowner.Find("wayleave")
//	if err == nil && owner.Port != 0 {
//		return fmt.Errorf("the table belongs to %s", owner)
//	}
//
// # Concurrency
//
// Find may be called from any number of goroutines.
//
// # Errors
//
// Find needs CAP_NET_ADMIN in the network namespace. Without it, Find returns syscall.EPERM, even
// if the table does not exist. On systems other than Linux, Find returns errors.ErrUnsupported.
package tableowner
