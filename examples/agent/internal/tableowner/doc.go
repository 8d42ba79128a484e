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
// Find fails with syscall.EPERM without CAP_NET_ADMIN in the network namespace, also if there is no
// such table. Where the system is not Linux it fails with errors.ErrUnsupported.
package tableowner
