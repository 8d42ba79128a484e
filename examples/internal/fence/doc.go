// SPDX-License-Identifier: Apache-2.0

// Package fence has a Log for tests that use testing/synctest. Its method Cross prevents false
// reports of the race detector. In such a test, the code under test writes memory, and the test
// reads it after synctest.Wait. Wait orders the writes before these reads. But nothing orders the
// reads before the next writes of the code, so the race detector reports a data race. If both sides
// call Cross, the reads and the next writes are ordered, too.
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
// There are no errors.
package fence
