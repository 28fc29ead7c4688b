//! AWS STS's answers.

use crate::structures;

structures! {
    /// The answer to GetCallerIdentity, members in Amazon's order.
    pub CallerIdentity {
        arn: String = "Arn",
        user_id: String = "UserId",
        account: String = "Account",
    }
}
