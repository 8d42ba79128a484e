// SPDX-License-Identifier: Apache-2.0

// Package fence orders the reads of a test before later writes of the code under test, for the race detector. In a
// bubble of testing/synctest, synctest.Wait orders only the other direction.
//
// # Usage
//
//	log := fence.NewLog()
//	log.Cross() // in each fake before it writes, and in the test after it has read
//	time.Sleep(d)
//	synctest.Wait()
//	text := log.String()
//
// # Concurrency
//
// Cross and Write may be called from any goroutine, String after synctest.Wait.
//
// # Errors
//
// There are none.
package fence
