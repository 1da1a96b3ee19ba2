//! Defects in recognizing dead letters that a broker delivers again.

use bezoar_core::{DeadLetter, Recognition};

use super::{
    broken::Change,
    defects::{Control, control},
};

/// Changes how letters without a lasting id are recognized.
fn recognized(change: fn(&mut u64, &mut bool)) -> Change<Vec<DeadLetter>> {
    Box::new(move |letters| {
        for letter in letters {
            if let Recognition::Content { session, redelivered } = &mut letter.recognition {
                change(session, redelivered);
            }
        }
    })
}

pub(crate) fn controls() -> Vec<Control> {
    vec![
        control(
            "treats redelivered letters as new",
            &[
                "recognition::a_letter_that_was_stored_and_not_removed_is_taken_in_once",
                "recognition::as_many_equal_letters_are_recognized_as_were_taken_in",
            ],
            |it| it.letters = recognized(|_, redelivered| *redelivered = false),
        ),
        control(
            "merges equal letters that are delivered for the first time",
            &["recognition::equal_letters_that_come_for_the_first_time_are_all_kept"],
            |it| it.letters = recognized(|_, redelivered| *redelivered = true),
        ),
        control(
            "merges equal letters of one session",
            &["recognition::as_many_equal_letters_are_recognized_as_were_taken_in"],
            |it| it.letters = recognized(|session, _| *session = rand::random()),
        ),
        control(
            "merges letters that the broker may not have any more",
            &[
                "recognition::a_letter_that_may_have_been_removed_is_kept_and_marked",
                "recognition::a_letter_that_another_session_took_over_stays_on_the_broker",
            ],
            |it| it.removing = Box::new(Vec::clear),
        ),
        control(
            "does not mark possible copies",
            &["recognition::a_letter_that_may_have_been_removed_is_kept_and_marked"],
            |it| {
                it.listed = Box::new(|listed| {
                    listed.iter_mut().for_each(|letter| letter.possible_copy_of = None);
                });
            },
        ),
        control(
            "compares only message ids and bodies",
            &["recognition::another_letter_is_not_taken_for_one_that_is_known"],
            |it| {
                it.letters = Box::new(|letters| {
                    letters.iter_mut().for_each(|letter| letter.message.headers.clear());
                });
            },
        ),
    ]
}
