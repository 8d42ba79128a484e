// SPDX-License-Identifier: Apache-2.0

// Package fence is for tests with testing/synctest and the race detector. There, synctest.Wait
// orders the writes of the code under test before later reads of the test. It does not order these
// reads before the next writes of the code, so the race detector reports a data race. The method
// Cross of a Log orders them.
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
