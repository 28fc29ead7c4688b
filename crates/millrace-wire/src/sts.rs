//! AWS STS's answers.

use crate::structures;

structures! {
    /// What GetCallerIdentity answers, members in Amazon's order.
    pub CallerIdentity {
        arn: String = "Arn",
        user_id: String = "UserId",
        account: String = "Account",
    }
}
